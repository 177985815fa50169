# SPDX-License-Identifier: GPL-2.0
# What a kernel tree wants from the builds of its modules, read from its configuration.
# In: KDIR. Out: KFLAGS, arguments for make -C $(KDIR). scripts/check-kdir says whether it can be used.

kdir-config := $(KDIR)/.config
kdir-option = $(shell sed -n 's/^CONFIG_$(1)="\{0,1\}\([^"]*\)"\{0,1\}$$/\1/p' $(kdir-config) 2>/dev/null)

KFLAGS :=
ifeq ($(call kdir-option,UML),y)
# UML's module loader does not know the GOTPCREL relocation.
KFLAGS += ARCH=um RUSTFLAGS_MODULE="-Crelocation-model=static -Ccode-model=large"
endif
ifeq ($(call kdir-option,CC_IS_CLANG),y)
KFLAGS += LLVM=-$(shell expr 0$(call kdir-option,CLANG_VERSION) / 10000)
else
# The compiler by the name that the kernel was built with, if that is here.
kdir-cc := $(firstword $(call kdir-option,CC_VERSION_TEXT))
KFLAGS += $(if $(kdir-cc),CC=$(kdir-cc))
endif
