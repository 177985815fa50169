# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 90
# kernels: um um-debug
# two legs
# An NI on a bond of two legs, one of which is active and gives the bond its hardware address. The
# active leg goes down, and later the other one: the address moves each time, node 1 closes the
# connections that were made with the old one, node 2 finds them dead, and new ones are made over
# the other leg. Nothing is under way then: on rxe nothing comes through any more after a link has
# gone down under traffic.

# shellcheck source=tests/lnet/standin.sh
. "$TREE/tests/lnet/standin.sh"

pings() { si ping "$PEER_NID" timeout_ms=2000 >/dev/null; }
moved_to() { [ "$(lnd_counter address_moved)" -ge "$1" ]; }
usable() { grep -q 'fatal=0' $SI/nis; }

conns() { si lctl conn_list o2ib0 | si_value n; }
one_conn() { [ "$(conns)" = 1 ]; }

# lose LEG OTHER COUNT: node 1 loses its active leg.
lose() {
	local leg=$1 other=$2 count=$3
	if node_is 1; then
		ip link set "$leg" down
		wait_for 5 leg_is_active "$other"
		wait_for 5 moved_to "$count"
	fi
	sync_point "lost-$leg" 60
	wait_for 30 pings
	wait_for 30 one_conn
	wait_for 5 usable
	sync_point "again-$leg" 60
	if node_is 1; then
		ip link set "$leg" up
		run si put "$PEER_NID" size=100000 conc=4 count=20 ack=1 timeout_ms=5000
		run si get "$PEER_NID" size=100000 conc=4 count=20 timeout_ms=5000
		run leg_is_active "$other"
	fi
	ok "lost $leg"
	sync_point "back-$leg" 60
}

bond_up
NETDEV=bond1
rxe_up || fail 'no rxe on the bond'
load_lnd timeout=10
run si net add o2ib0 "if=$NETDEV"
sync_point up
wait_for 10 pings
expect 'addresses moved at first' "$(lnd_counter address_moved)" 0
lose vec0 vec1 1
lose vec1 vec0 2
run si_clean
run si net del o2ib0
unload_lnd
