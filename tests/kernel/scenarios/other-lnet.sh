# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 30
# kernels: um um-debug stock
# fast
# R5: the module was built for another build of LNet (here: of the stand-in) than the one that is
# loaded. No node needs the other.

. "$TREE/tests/kernel/other-build.sh"

# refused_beside STANDIN TEXT
refused_beside() {
	run insmod "$1"
	run refused_with "$2"
	# A refused module holds nothing.
	run rmmod lnet_standin
}

id=$("$TREE/scripts/build-id" "$KO/lnet_standin.ko")
expect 'lnet_standin_build_id in modinfo' \
	"$(modinfo -F lnet_standin_build_id "$KO/ko2iblnd.ko")" "$id"
other=$(other_build "$KO/lnet_standin.ko")
refused_beside "$other" "built for another build of lnet_standin (build-id ${id:0:12}) than"
ok 'another build is refused'
# On the debug kernel this is all: KASAN reports the relocations of a second build of the stand-in
# there, in the kernel's apply_relocate_add(), because that kernel has no KASAN_VMALLOC: the redzones
# of a module that has gone stay in the shadow. With KASAN_VMALLOC the whole scenario passed there; but
# that brings stacks with a guard page, which connd's stack and a nested softirq overran (badinput).
if [ "$KERNEL" != um-debug ]; then
	bare=$(without_build_id "$KO/lnet_standin.ko")
	refused_beside "$bare" 'the lnet_standin that is loaded has no build-id'
	ok 'a build that cannot be told is refused'
	load_lnd
	unload_lnd
	ok 'the build that it was made for is taken'
fi
