# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 60
# A booted machine with the DKMS package: modprobe finds the packaged module and its LNet (here the
# stand-in), and the two nodes ping each other through it.

# shellcheck source=tests/lnet/standin.sh
. "$TREE/tests/lnet/standin.sh"

expect 'what modprobe would load' "$(modinfo -n ko2iblnd | sed 's/\.xz$//')" \
	"/lib/modules/$(uname -r)/updates/dkms/ko2iblnd.ko"
run modprobe ko2iblnd
[ -d /sys/module/lnet_standin ] || fail 'the LNet stand-in is not loaded'
expect version "$(cat /sys/module/ko2iblnd/version)" "$(cat "$TREE/VERSION")"
run si net add o2ib0 "if=$NETDEV"
sync_point up
run si ping "$PEER_NID" count=3
sync_point pinged
run si_clean
run si net del o2ib0
run modprobe -r ko2iblnd
