# SPDX-License-Identifier: GPL-2.0
# What a kernel tree wants from the builds of its modules, read from its configuration.
# In: KDIR. Out: KFLAGS, arguments for make -C $(KDIR); KERROR, why it cannot be used.

kdir-config := $(KDIR)/.config
kdir-option = $(shell sed -n 's/^CONFIG_$(1)="\{0,1\}\([^"]*\)"\{0,1\}$$/\1/p' $(kdir-config) 2>/dev/null)

KERROR :=
ifeq ($(wildcard $(KDIR)),)
KERROR := no kernel tree at KDIR=$(KDIR)
else ifeq ($(wildcard $(KDIR)/rust/libkernel.rmeta $(KDIR)/rust/kernel.o),)
KERROR := $(KDIR) has no Rust metadata (rust/libkernel.rmeta), as all of Debian's header packages. \
Make a tree that has it with scripts/debian-rust-kdir and give it as KDIR=, see Documentation/prepare-tree.md
else ifneq ($(call kdir-option,MODVERSIONS),)
KERROR := $(KDIR) has CONFIG_MODVERSIONS, with which no Rust module builds here
endif

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
