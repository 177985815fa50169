# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 60
# two legs
# Two interfaces with an RDMA device each, and an NI on each, with traffic on both. One device says
# that it is broken: its NI is to be avoided, the other one goes on; with a device in its place the
# NI is used again.

# shellcheck source=tests/lnet/standin.sh
. "$TREE/tests/lnet/standin.sh"

OTHER_IP=10.99.0.$NODE
OTHER_PEER=10.99.0.$PEER
# enum ib_event_type
DEVICE_FATAL=8 PORT_ACTIVE=9 PORT_ERR=10

fatal() { grep "nid=$1" $SI/nis | si_value fatal; }
is_fatal() { [ "$(fatal "$1")" = 1 ]; }
is_usable() { [ "$(fatal "$1")" = 0 ]; }
pings() { si ping "$1" timeout_ms=2000 >/dev/null; }
event() {
	printf 'event %s %s' "$1" "$2" >/sys/kernel/debug/kor_evil/cmd ||
		fail "no event $2 on $1"
}

# Both interfaces are on one switch: each is to answer for its own address only.
echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore
echo 2 >/proc/sys/net/ipv4/conf/all/arp_announce
sync_point alone
run ip neigh flush all
run ip addr add "$OTHER_IP/24" dev vec1
run ip link set vec1 up
run rdma link add rxe1 type rxe netdev vec1
load_lnd timeout=10
run insmod "$KO/kor_evil.ko"
run si net add o2ib0 if=vec0
run si net add o2ib1 if=vec1
expect 'devices' "$(lnd_live devs)" 2
sync_point up
run si put "$PEER_NID" size=100000 count=20 conc=4 ack=1 timeout_ms=10000 >/dev/null
run si put "$OTHER_PEER@o2ib1" size=100000 count=20 conc=4 ack=1 timeout_ms=10000 >/dev/null
ok 'traffic on both'
sync_point both 30

if node_is 1; then
	# The port is as it was, whatever is said: the state is looked at, not believed.
	event vec1 $PORT_ERR
	nap 2
	run is_usable "$OTHER_IP@o2ib1"
	event vec1 $PORT_ACTIVE
	event vec1 $DEVICE_FATAL
	wait_for 5 is_fatal "$OTHER_IP@o2ib1"
	run is_usable "$MY_NID"
	run pings "$PEER_NID"
	run rdma link delete rxe1
	run rdma link add rxe1 type rxe netdev vec1
	wait_for 10 is_usable "$OTHER_IP@o2ib1"
	wait_for 20 pings "$OTHER_PEER@o2ib1"
	ok 'one device broken and replaced'
fi
sync_point broken 60
run rmmod kor_evil
run si_clean
run si net del o2ib1
run si net del o2ib0
unload_lnd
