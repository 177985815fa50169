# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 90
# kernels: um um-debug stock
# The interface goes down and comes back, its address goes and comes back, it is renamed, the RDMA
# device goes and comes back under an NI: LNet is told to avoid the NI and to use it again, and traffic works
# as before; removing the device does not wait for traffic.

# shellcheck source=tests/lnet/standin.sh
. "$TREE/tests/lnet/standin.sh"

fatal() { grep "nid=$MY_NID" $SI/nis | si_value fatal; }
is_fatal() { [ "$(fatal)" = 1 ]; }
is_usable() { [ "$(fatal)" = 0 ]; }
pings() { si ping "$PEER_NID" timeout_ms=2000 >/dev/null; }

load_lnd timeout=10
run si net add o2ib0 "if=$NETDEV"
sync_point up
run is_usable
wait_for 10 pings
sync_point pinged

if node_is 1; then
	run ip link set "$NETDEV" down
	wait_for 5 is_fatal
	run ip link set "$NETDEV" up
	wait_for 5 is_usable
	wait_for 20 pings
	run ip addr del "$MY_IP/24" dev "$NETDEV"
	wait_for 5 is_fatal
	run ip addr add "$MY_IP/24" dev "$NETDEV"
	wait_for 5 is_usable
	wait_for 20 pings
	# Its new name is no reason to avoid it, also when its state is looked at anew.
	run ip link set "$NETDEV" name renamed0
	run ip link set renamed0 down
	wait_for 5 is_fatal
	run ip link set renamed0 up
	wait_for 5 is_usable
	wait_for 20 pings
	run ip link set renamed0 name "$NETDEV"
	wait_for 20 pings
	run is_usable
fi
sync_point link 90

if node_is 1; then
	si put "$PEER_NID" size=100000 conc=8 count=1000000 max_ms=6000 timeout_ms=5000 ack=1 \
		>"$RUN/traffic.1" 2>&1 &
	nap 2
	within 15 rdma link delete rxe0
	wait_for 5 is_fatal
	expect 'devices gone' "$(lnd_counter device_gone)" 1
	run rxe_up
	wait_for 10 is_usable
	wait_for 20 pings
	wait
fi
sync_point device 90

# LNet on node 2 holds messages of node 1 for a while; the device does not wait for it, and what it
# holds is there when it wants it.
DELAYED=$((SLOW > 1 ? 40 : 8))
if node_is 1; then
	si put "$PEER_NID" size=3000 conc=4 count=4 delay_ms=$((DELAYED * 1000)) \
		>"$RUN/delayed.1" 2>&1 || fail "PUTs that wait at the other node: $(cat "$RUN/delayed.1")"
fi
sync_point delayed 60
if node_is 2; then
	before=$(si_stat sink_ok)
	expect 'buffers with LNet' "$(lnd_live lnet_rx)" 4
	within $((DELAYED / SLOW - 3)) rdma link delete rxe0
	expect 'connections' "$(lnd_counter device_gone)" 1
	run rxe_up
	wait_for 10 is_usable
	all_ok() { [ $(($(si_stat sink_ok) - before)) = 4 ]; }
	wait_for $((DELAYED + 5)) all_ok
	expect 'buffers with LNet' "$(lnd_live lnet_rx)" 0
fi
sync_point held 90
wait_for 20 pings
sync_point pinged-again 30
run si_clean
run si net del o2ib0
unload_lnd
