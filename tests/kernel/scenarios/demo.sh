# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 120
# kernels: um um-debug stock
# What `make demo` runs: every kind and size of message, verified on both ends, first from node
# 1, then from node 2; then everything is taken down and nothing is left.

# shellcheck source=tests/lnet/standin.sh
. "$TREE/tests/lnet/standin.sh"

case $KERNEL in
um) messages=${DEMO_MESSAGES:-200} ;;
*) messages=${DEMO_MESSAGES:-20} ;;
esac

# The other node's PUTs have all arrived and been verified.
all_arrived() { [ "$(si_stat sink_ok)" = "$(get_peer puts)" ]; }

load_lnd
run si net add o2ib0 "if=$NETDEV"
sync_point up

for sender in 1 2; do
	if node_is $sender; then
		si_demo "$PEER_NID" "$messages" || fail "traffic from node $sender has errors"
	fi
	sync_point "sent-$sender" 60
done
put puts "$SI_PUTS"
sync_point counted
wait_for 10 all_arrived

keep_rxe
keep_stats
si_clean || fail "LNet's rules were broken"
sync_point checked
run si net del o2ib0
unload_lnd
