# SPDX-License-Identifier: GPL-2.0
# ko2iblnd in Rust. `make help` lists what can be made.

# Kbuild reads the file Kbuild beside this one; everything here is for people.
KDIR ?= /lib/modules/$(shell uname -r)/build
KOR_CACHE ?= /var/cache/ko2iblnd-rs
KERNEL ?= um
export KOR_CACHE SERIES

# Kbuild takes neither spaces nor colons in a path, and a shell trips over the rest.
kor-forbidden := : ; ' " ` $$ & | < > ( ) * ? \ %
kor-path-ok = $(if $(or $(word 2,$(1)),$(strip $(foreach c,$(kor-forbidden),$(findstring $c,$(1))))),\
	$(error $(2) "$(1)" has a space or one of $(kor-forbidden) in it, which Kbuild cannot take: $(3)))
$(call kor-path-ok,$(CURDIR),the directory,move the clone elsewhere)
$(foreach v,KDIR LNET OUT KOR_CACHE DESTDIR INSTALL_MOD_PATH KOR_SIGN_KEY KOR_SIGN_CERT,\
	$(call kor-path-ok,$($v),$v,give another path))

override KDIR := $(abspath $(KDIR))
# The root has the tree, not a symbolic link to it.
override LNET := $(if $(LNET),$(or $(realpath $(LNET)),$(abspath $(LNET))))
$(call kor-path-ok,$(LNET),LNET,give another path)
# Modules for two kernels never meet in one directory.
kernel-release := $(shell cat $(KDIR)/include/config/kernel.release 2>/dev/null)
OUT ?= build/$(if $(LNET),lnet,module)$(if $(kernel-release),-$(kernel-release))
override OUT := $(abspath $(OUT))

all: modules

include scripts/kdir.mk

# A tree in the cache was made by the compilers of its series' root: use them.
in-root := $(if $(filter $(abspath $(KOR_CACHE))/%,$(KDIR)),\
	SERIES=$(or $(shell cat $(KDIR)/.kor-series 2>/dev/null),$(SERIES)) \
	KDIR=$(KDIR) LNET=$(LNET) KOR_BIND=$(dir $(OUT)) scripts/in-root)

# $(call kbuild,SOURCE,OUTPUT,TARGET,ARGUMENTS)
kbuild = $(in-root) make $(if $(V),,-s) -C $(KDIR) $(KFLAGS) -j$(or $(KOR_JOBS),$(shell nproc)) \
	M=$(1) MO=$(2) $(4) $(3)

# The tests' builds ask for more: KOR_DMA_CHECK=1 is the checking mode of the ib_dma shims.
knobs := LNET=$(LNET) $(if $(LNET),,KOR_STANDIN=$(OUT)/standin/lnet_standin.ko) $(if $(KOR_DMA_CHECK),KOR_DMA_CHECK=$(KOR_DMA_CHECK)) \
	$(if $(KOR_MISUSE),KOR_MISUSE=$(KOR_MISUSE))

ifeq ($(LNET),)
modules clippy: standin
ko-symvers := $(OUT)/standin/Module.symvers
else
ko-symvers := $(LNET)/Module.symvers
endif

# Errors are lines of make itself, so that each is one line and no shell reads it.

# What check-kdir says of the tree, with the tools that the build will use.
die-if = $(if $(1),$(error $(1)))
comma := ,
given = $(if $(filter command,$(firstword $(origin $(1)))),$(1)=$($(1)))
kdir-complaint = $(subst check-kdir: error: ,,$(shell \
	$(in-root) env $(call given,RUSTC) $(call given,BINDGEN) scripts/check-kdir $(KDIR) 2>&1))
cannot-write = $(shell mkdir -p $(1) 2>/dev/null && [ -w $(1) ] || echo $(1))

check-kdir:
	@$(if $(in-root),$(if $(wildcard $(KDIR)/),,\
		$(error no kernel tree at KDIR=$(KDIR): scripts/build-kernel makes those of the cache)))
	@$(if $(in-root),$(if $(filter-out 0,$(shell id -u)),\
		$(error KDIR=$(KDIR) is in the cache, whose compilers only root can use: \
		run make as root$(comma) or make a tree of your own with scripts/debian-rust-kdir)))
	@$(call die-if,$(kdir-complaint))
	@$(if $(call cannot-write,$(OUT)),$(error cannot write to OUT=$(OUT): give OUT= a directory that you can write to))

check-lnet:
	@$(if $(LNET),$(if $(wildcard $(LNET)/),,$(error no directory LNET=$(LNET): it must be a built Lustre tree)))
	@$(foreach f,config.h Module.symvers,$(if $(LNET),$(if $(wildcard $(LNET)/$f),,\
		$(error LNET=$(LNET) has no $f: it must be a built Lustre tree$(comma) configured and made for this kernel))))

# The builds of LNet's modules that the module is for: Kbuild asks again, in the build.
check-builds: check-lnet
	@$(if $(LNET),$(call die-if,$(subst build-id: error: ,,$(shell \
		$(in-root) scripts/build-id --header $(LNET) 2>&1 >/dev/null))))

modules: check-kdir check-builds
	@mkdir -p $(OUT)/ko2iblnd
	@$(call kbuild,$(CURDIR),$(OUT)/ko2iblnd,modules,$(knobs) KBUILD_EXTRA_SYMBOLS="$(ko-symvers)")
	@cp $(OUT)/ko2iblnd/ko2iblnd.ko $(OUT)/ko2iblnd.ko
	@echo $(OUT)/ko2iblnd.ko

# The LNet stand-in: a test module, for builds without LNET=.
standin: check-kdir
	@mkdir -p $(OUT)/standin
	@$(call kbuild,$(CURDIR)/tests/lnet,$(OUT)/standin,modules)
	@cp $(OUT)/standin/*.ko $(OUT)/

# The peer that says what it is told to say: bad input for the tests.
evil: check-kdir
	@mkdir -p $(OUT)/evil
	@$(call kbuild,$(CURDIR)/tests/evil,$(OUT)/evil,modules)
	@cp $(OUT)/evil/*.ko $(OUT)/

# An RDMA device in memory that does what it is told, and the test of its checks.
hca: check-kdir
	@mkdir -p $(OUT)/hca
	@$(call kbuild,$(CURDIR)/tests/hca,$(OUT)/hca,modules)
	@cp $(OUT)/hca/*.ko $(OUT)/

# Messages through real LNet that its own tests cannot send.
put: check-kdir check-lnet
	@mkdir -p $(OUT)/put
	@$(call kbuild,$(CURDIR)/tests/lnetput,$(OUT)/put,modules,$(knobs) KBUILD_EXTRA_SYMBOLS="$(ko-symvers)")
	@cp $(OUT)/put/*.ko $(OUT)/

# No compiler is needed, so root need not have one: what is installed was made before, or is made
# by the same command.
install: check-lnet $(filter all modules,$(MAKECMDGOALS))
	@$(if $(LNET),,$(error install needs LNET=<built Lustre tree>: a module built for the LNet stand-in is of no use on a real node))
	@scripts/install-module install $(KDIR) $(OUT)/ko2iblnd.ko

uninstall:
	@scripts/install-module uninstall $(KDIR)

clippy: check-kdir
	@mkdir -p $(OUT)/clippy
	@$(call kbuild,$(CURDIR),$(OUT)/clippy,modules,$(knobs) CLIPPY=1 KBUILD_MODPOST_WARN=1)

# The module's crate, private items too.
rustdoc: modules
	@$(in-root) scripts/rustdoc $(OUT)/ko2iblnd $(OUT)/doc

# For editors: rust-project.json at the top. A tree in the cache was made in the root, so that is
# where the compiler's sources are.
rust-analyzer: modules
	@mkdir -p $(OUT)/rust-analyzer
	@$(call kbuild,$(CURDIR),$(OUT)/rust-analyzer,rust-analyzer)
	@scripts/rust-project $(OUT)/rust-analyzer/rust-project.json $(CURDIR) $(OUT)/ko2iblnd \
		$(if $(in-root),"$$(scripts/setup-root)",/) >rust-project.json
	@echo $(CURDIR)/rust-project.json

demo:
	@scripts/demo $(KERNEL)

test:
	@scripts/test

test-fast:
	@scripts/test fast

# Each call of a round that can fail, fails: minutes, so not part of "make test".
test-faults:
	@scripts/replay scenario um $(addprefix $(CURDIR)/,$(wildcard tests/kernel/scenarios-faults/*.sh))

test-kernels:
	@scripts/test-kernels

test-lnet:
	@$(if $(LNET),scripts/test-lnet '$(LNET)',$(error test-lnet needs LNET=<built Lustre tree>$(comma) see Documentation/testing.md))

prove:
	@scripts/prove

fuzz:
	@scripts/prove fuzz

um-kernel:
	@scripts/build-kernel um

clean:
	rm -rf build tests/host/target

help:
	@sed -n 's/^#: \{0,1\}//p' Makefile

#: make                    build ko2iblnd.ko against the running kernel and the LNet stand-in
#: make KDIR=TREE          against another kernel tree; it must have Rust metadata
#: make LNET=TREE          for real LNet: a built Lustre tree
#: make install LNET=TREE  install that module, preferred to the C driver's. DESTDIR= packs it,
#:                         INSTALL_MOD_PATH= is another system's root, KOR_SIGN_KEY= and
#:                         KOR_SIGN_CERT= sign it: scripts/install-module --help
#: make uninstall          take it away; the C driver's is back
#:
#: make demo               two User-mode Linux nodes exchange LNet messages over RDMA
#: make demo KERNEL=stock  the same on Debian's own kernel under QEMU
#: make test               all tests; make test-fast: those for every few minutes
#: make test-faults        each call to the RDMA device fails once, on one node
#: make test-kernels       build and smoke-test on each kernel of scripts/kernels
#: make test-lnet LNET=TREE  with real LNet, on the kernel that the tree was built for
#:
#: make prove              the long proofs of the protocol engine, with their figures
#: make fuzz               libFuzzer on the parsers and the engine
#:
#: make um-kernel          make the UML kernel that the tests use, print its path
#: make clippy             clippy over the module
#: make rustdoc            documentation of the module's crate, private items included
#: make rust-analyzer      rust-project.json, for editors: kernel, module; tests/host has a Cargo.toml
#: make clean              remove build/ (the cache stays: KOR_CACHE, $(KOR_CACHE))
#:
#: SERIES=7.2 with demo and test: another line of scripts/kernels than the first.
#: V=1 shows commands; KOR_JOBS is the number of parallel jobs.
#: Documentation/testing.md says more.

.PHONY: all modules standin evil hca put install uninstall clippy rustdoc rust-analyzer demo test \
	test-fast test-faults test-kernels test-lnet prove fuzz um-kernel clean help \
	check-kdir check-lnet check-builds
