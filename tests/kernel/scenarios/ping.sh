# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 40
# kernels: um um-debug stock
# fast
# One NI on each node; each pings the other; everything is taken down.

# shellcheck source=tests/lnet/standin.sh
. "$TREE/tests/lnet/standin.sh"

load_lnd
run si net add o2ib0 "if=$NETDEV"
sync_point up
for sender in 1 2; do
	if node_is $sender; then
		run si ping "$PEER_NID" count=5
	fi
	sync_point "pinged-$sender"
done
keep_stats
run si_clean
run si net del o2ib0
unload_lnd
