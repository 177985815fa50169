# SPDX-License-Identifier: GPL-2.0
# Where the headers and symbols of LNet are. Included by Kbuild and by the Makefile.
# In: LNET, a built Lustre tree, or nothing for the stand-in; kor-src, the project's directory.
# Out: lnet-cflags for the C shims; lnet-symvers, files for KBUILD_EXTRA_SYMBOLS.

ifneq ($(LNET),)

lnet-dirs := include libcfs/include lnet/include lnet/include/uapi lustre/include \
	lustre/include/uapi
lnet-cflags := $(foreach dir,$(lnet-dirs),$(if $(wildcard $(LNET)/$(dir)),-I$(LNET)/$(dir)))
# Lustre's own order: what configure undefines, then what it found.
lnet-cflags := $(foreach file,undef.h config.h,\
	$(if $(wildcard $(LNET)/$(file)),-include $(LNET)/$(file))) $(lnet-cflags)
lnet-symvers := $(wildcard $(LNET)/Module.symvers)

else

lnet-cflags := -I$(kor-src)/tests/lnet/include
lnet-symvers :=

endif
