# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 120
# A booted machine with the DKMS package and real LNet: modprobe loads the packaged module beside
# the LNet that it was built for, and two nodes ping each other through it.

# shellcheck source=tests/kernel/lnet-lib.sh
. "$TREE/tests/kernel/lnet-lib.sh"

expect 'what modprobe would load' "$(modinfo -n ko2iblnd | sed 's/\.xz$//')" \
	"/lib/modules/$(uname -r)/updates/dkms/ko2iblnd.ko"
# LNet is not installed in this root: it is loaded from the tree that the package was built for.
run insmod "$(lnet_file libcfs.ko)"
run insmod "$(lnet_file lnet.ko)"
run modprobe ko2iblnd
expect version "$(cat /sys/module/ko2iblnd/version)" "$(cat "$TREE/VERSION")"
run lnetctl lnet configure
run net_add
sync_point up
run lnet_ping "$PEER_NID"
sync_point pinged
run net_del
lnet_unload
