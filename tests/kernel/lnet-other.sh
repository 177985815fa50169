# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# R5 with real LNet: our module was built for one build of LNet, another one is loaded. KOR_LNET2
# names a second built Lustre tree, e.g. one whose struct lnet_ni differs. To be sourced after
# lnet-lib.sh.

# shellcheck source=tests/kernel/other-build.sh
. "$TREE/tests/kernel/other-build.sh"

# refused_beside LIBCFS LNET TEXT: with these modules of LNet.
refused_beside() {
	local rc=0
	insmod "$1" && insmod "$2" || return
	refused_with "$3" || rc=1
	# A refused module holds nothing.
	rmmod lnet && rmmod libcfs || rc=1
	tail -n 1 "$RUN/refused.$NODE"
	return $rc
}

# recorded NAME: modinfo shows the build-id of that module of LNet.
recorded() {
	local id
	id=$("$TREE/scripts/build-id" "$(lnet_file "$1.ko")") &&
		[ "$(modinfo -F "$1_build_id" "$KO/ko2iblnd.ko")" = "$id" ]
}

taken() {
	insmod "$(lnet_file libcfs.ko)" && insmod "$(lnet_file lnet.ko)" &&
		insmod "$KO/ko2iblnd.ko" && rmmod ko2iblnd && rmmod lnet && rmmod libcfs
}

# second_file NAME: of the second tree.
second_file() { find "$KOR_LNET2" -name "$1" -type f -print -quit; }

# lnet_other FIRST SECOND: on each node that has our LND, by itself.
lnet_other() {
	local libcfs lnet
	libcfs=$(lnet_file libcfs.ko)
	lnet=$(lnet_file lnet.ko)
	[ "${!NODE}" = ours ] || return 0
	item 'R5 build-id of lnet in modinfo' recorded lnet
	item 'R5 build-id of libcfs in modinfo' recorded libcfs
	item 'R5 another build of lnet is refused' refused_beside "$libcfs" \
		"$(other_build "$lnet")" 'built for another build of lnet (build-id'
	item 'R5 another build of libcfs is refused' refused_beside "$(other_build "$libcfs")" \
		"$lnet" 'built for another build of libcfs (build-id'
	item 'R5 lnet without a build-id is refused' refused_beside "$libcfs" \
		"$(without_build_id "$lnet")" 'the lnet that is loaded has no build-id'
	if [ "$KOR_LNET2" ]; then
		item 'R5 LNet of another tree is refused' refused_beside \
			"$(second_file libcfs.ko)" "$(second_file lnet.ko)" \
			'built for another build of lnet (build-id'
	else
		skip 'R5 LNet of another tree is refused' 'KOR_LNET2 names no second tree'
	fi
	item 'R5 the LNet that it was built for is taken' taken
	all_items_passed
}
