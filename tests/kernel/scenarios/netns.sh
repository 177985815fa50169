# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 60
# The NI of node 1 is configured from a network namespace that has the interface: its addresses,
# its connections and its listener are there, and it goes when it is deleted. Node 2's is in the
# first namespace.

# shellcheck source=tests/lnet/standin.sh
. "$TREE/tests/lnet/standin.sh"

# Not by "ip netns exec", which also mounts a /sys without debugfs.
inside() { nsenter --net=/run/netns/inner "$@"; }

make_namespace() {
	run rxe_down
	run mkdir -p /run/netns
	run ip netns add inner
	run ip link set "$NETDEV" netns inner
	run inside ip link set lo up
	run inside ip link set "$NETDEV" up
	run inside ip addr add "$MY_IP/24" dev "$NETDEV"
	run inside rdma link add rxe0 type rxe netdev "$NETDEV"
}

node_is 2 || make_namespace
load_lnd timeout=10
if node_is 1; then
	# Not here.
	si net add o2ib0 "if=$NETDEV" >/dev/null && fail 'an NI on an interface of another namespace'
	run inside bash -c '. "$1"; si net add o2ib0 "if=$2"' - "$TREE/tests/lnet/standin.sh" "$NETDEV"
else
	run si net add o2ib0 "if=$NETDEV" >/dev/null
fi
sync_point up
run si ping "$PEER_NID" timeout_ms=10000
run si put "$PEER_NID" size=100000 count=20 conc=4 ack=1 timeout_ms=5000
sync_point "done" 30
run si_clean
run si net del o2ib0 >/dev/null
unload_lnd
