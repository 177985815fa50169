# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 60
# kernels: um um-debug
# two legs
# A bond whose legs have an RDMA device each: when the active leg changes, the address is on the
# other device, and the NI goes there. Only the move is looked at: rxe on a leg does not take what
# comes for the bond. No node needs the other.

# shellcheck source=tests/lnet/standin.sh
. "$TREE/tests/lnet/standin.sh"

usable() { grep -q 'fatal=0' $SI/nis; }
listens_on() { rdma resource show cm_id | grep 'LISTEN' | grep -q "link $1/"; }

# moves FROM TO DEVICE: from one leg to the other, whose device is DEVICE.
moves() {
	run ip link set "$1" down
	wait_for 5 leg_is_active "$2"
	wait_for 10 listens_on "$3"
	wait_for 10 usable
	expect 'listeners' "$(rdma resource show cm_id | grep -c LISTEN)" 1
	run ip link set "$1" up
	ok "from $1 to $3"
}

bond_up
run rdma link add rxe0 type rxe netdev vec0
run rdma link add rxe1 type rxe netdev vec1
load_lnd timeout=10
run si net add o2ib0 if=bond1
wait_for 5 listens_on rxe0
moves vec0 vec1 rxe1
moves vec1 vec0 rxe0
# The CM may tell of a move before the device's GIDs have moved: then it is found a second later.
[ "$(lnd_counter address_moved)" -ge 2 ] || fail "address_moved is $(lnd_counter address_moved), not 2"
run si_clean
run si net del o2ib0
unload_lnd
