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
bare=$(without_build_id "$KO/lnet_standin.ko")
refused_beside "$bare" 'the lnet_standin that is loaded has no build-id'
ok 'a build that cannot be told is refused'
load_lnd
unload_lnd
ok 'the build that it was made for is taken'
