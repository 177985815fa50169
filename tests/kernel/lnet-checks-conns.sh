# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# The checklist's items about connections (F.3). Sourced by lnet-checks.sh.

# --- connections --------------------------------------------------------------------------

# The NIs are up on both nodes; each item ends with them so.
on_demand() {
	lctl --net o2ib del_peer "$PEER_NID" 2>/dev/null
	is 'connections before' "$(conns_to_peer)" 0 && lnet_ping "$PEER_NID" &&
		is 'connections after' "$(conns_to_peer)" 1
}

peer_listed() { lctl --net o2ib peer_list | grep -q "^$PEER_NID .*\[[0-9]*\]"; }

disconnects() {
	lnet_ping "$PEER_NID" && lctl --net o2ib disconnect "$@" || return
	nap 0.5
	is 'connections after disconnect' "$(conns_to_peer)" 0 && lnet_ping "$PEER_NID" &&
		is 'connections after ping' "$(conns_to_peer)" 1
}

unprivileged_port() {
	echo 0 >"$P/use_privileged_port"
	lctl --net o2ib del_peer "$PEER_NID"
	lnet_ping "$PEER_NID"
	local rc=$? port
	echo 1 >"$P/use_privileged_port"
	port=$(rdma resource show cm_id |
		sed -n "s/.*CONNECT.*src-addr $MY_IP:\([0-9]*\) dst-addr $PEER_IP:987.*/\1/p")
	[ $rc -eq 0 ] && [ "${port:-0}" -ge 1024 ] || { echo "port $port"; return 1; }
}

privileged_port() {
	lctl --net o2ib del_peer "$PEER_NID"
	lnet_ping "$PEER_NID" || return
	rdma resource show cm_id | grep -q "src-addr $MY_IP:[0-9]\{1,3\} dst-addr $PEER_IP:987" ||
		rdma resource show cm_id | grep -q "src-addr $MY_IP:10[01][0-9] dst-addr $PEER_IP:987" ||
		rdma resource show cm_id | grep "src-addr $MY_IP:102[0-3] dst-addr $PEER_IP:987"
}

dead_address() {
	local start=$SECONDS
	! bounded 60 lnetctl ping 10.98.0.77@o2ib || return
	[ $((SECONDS - start)) -le $((30 * SLOW)) ] || { echo "took $((SECONDS - start)) s"; return 1; }
}

unknown_peer() { lctl --net o2ib del_peer 1.2.3.4@o2ib 2>&1 | grep -qi 'no such'; }

debug_dump() {
	lnet_ping "$PEER_NID" && lnetctl debug peer --nid "$PEER_NID" && nap 0.5
	dmesg | tail -n 40 | grep -q "$PEER_NID"
}

# Both nodes drop their connections, then ping at once, again and again.
race_loop() {
	local i
	for ((i = 0; i < 30; i++)); do
		lctl --net o2ib del_peer "$PEER_NID" >/dev/null 2>&1
		sync_point "deleted-$i"
		lnet_ping "$PEER_NID" || { echo "round $i"; return 1; }
		sync_point "pinged-$i"
	done
}

discovered() {
	bounded 30 lnetctl discover "$PEER_NID" | tee "$RUN/discovered.$NODE"
	grep -q "nid: $PEER_NID\$" "$RUN/discovered.$NODE" || return
	lnetctl peer show --nid "$PEER_NID" | grep -qi 'multi-rail: true'
}

check_connections() {
	item '38 on demand' on_demand
	item '39 peer list' peer_listed
	item '41 privileged port' privileged_port
	item '41 other port' unprivileged_port
	item '46 disconnect' disconnects "$PEER_NID"
	# The C driver as the one that disconnects usually closes nothing.
	if [ "$LND" = c ]; then
		skip '47 disconnect all' 'the C driver usually closes nothing'
	else
		item '47 disconnect all' disconnects
	fi
	item '48 unknown peer' unknown_peer
	item '52 dead address' dead_address
	item '56 debug dump' debug_dump
	item 'discover' discovered
}

# --- in step with node 2 ------------------------------------------------------------------

several_conns() {
	lnet_ping "$PEER_NID" && nap 1 && is connections "$(conns_to_peer)" "$1" &&
		lst_test 20 brw write check=full size=64k
}

depths_differ() {
	lnet_ping "$PEER_NID" && LST_CONCURRENCY=32 lst_test 10 brw read check=full size=4k &&
		LST_CONCURRENCY=32 lst_test 10 brw write check=full size=64k
}

# Node 2 wants privileged ports. Now and then it starts a connection itself, of LNet's own accord.
refused_without() {
	local i
	for ((i = 0; i < 5; i++)); do
		lctl --net o2ib del_peer "$PEER_NID"
		lnet_ping "$PEER_NID" || return 0
		! connected_from_here || { echo 'accepted from another port'; return 1; }
	done
	echo 'node 2 always connects first'
	return 1
}

privileged_required() {
	local rc=0
	lctl --net o2ib del_peer "$PEER_NID"
	lnet_ping "$PEER_NID" || return
	echo 0 >"$P/use_privileged_port"
	refused_without || rc=1
	echo 1 >"$P/use_privileged_port"
	lnet_ping "$PEER_NID" || lnet_ping "$PEER_NID" || rc=1
	return $rc
}

require_privileged() {
	sync_point before-privileged
	node_is 1 || echo 1 >"$P/require_privileged_port"
	sync_point privileged
	! node_is 1 || item '42 privileged port required' privileged_required
	sync_point did-privileged 120
	node_is 1 || echo 0 >"$P/require_privileged_port"
}

# Node 2 has a new incarnation while node 1 has connections to the old one.
stale() {
	sync_point before-stale
	! node_is 1 || lnet_ping "$PEER_NID" >/dev/null
	sync_point pinged-stale
	node_is 1 || { net_del && net_add; } || fail 'new NI'
	sync_point new-incarnation 60
	! node_is 1 || item '49 stale incarnation' eval \
		'lnet_ping "$PEER_NID" || lnet_ping "$PEER_NID"; is connections "$(conns_to_peer)" 1'
	sync_point did-stale 60
}

# Node 1 pings while node 2's NI comes and goes, and is there at last.
ping_until_up() {
	local failed=0 good=0
	until [ -e "$RUN/up-for-good" ]; do
		if bounded 30 lnetctl ping --timeout 2 "$PEER_NID" >/dev/null 2>&1; then
			good=$((good + 1))
		else
			failed=$((failed + 1))
		fi
	done
	echo "$failed pings failed, $good did not"
	[ $failed -gt 0 ] || return
	lnet_ping "$PEER_NID" || lnet_ping "$PEER_NID"
}

come_and_go() {
	local i
	for ((i = 0; i < 5; i++)); do
		nap 1
		net_add || return
		nap 1
		net_del || return
	done
	nap 1
	net_add
}

early_reject() {
	sync_point before-early
	node_is 1 || net_del || fail 'net del'
	sync_point early 60
	if node_is 1; then
		item '50 early reject' ping_until_up
	else
		come_and_go || fail 'net add and del'
		: >"$RUN/up-for-good"
	fi
	sync_point did-early 160
}

no_listener_fails_fast() {
	local start=$SECONDS
	! bounded 60 lnetctl ping "$PEER_NID" || return
	[ $((SECONDS - start)) -le $((3 * SLOW)) ] || { echo "took $((SECONDS - start)) s"; return 1; }
}

no_listener() {
	sync_point before-nobody
	node_is 1 || net_del || fail 'net del'
	sync_point nobody 60
	! node_is 1 || item '51 no listener' no_listener_fails_fast
	sync_point did-nobody 60
	node_is 1 || net_add || fail 'net add'
	sync_point somebody 60
	! node_is 1 || item '51 listener is back' eval 'lnet_ping "$PEER_NID" || lnet_ping "$PEER_NID"'
	sync_point did-somebody 120
}

# packets_in SECONDS: how many node 1 sends when nobody asks it to.
packets_in() {
	local before
	lctl --net o2ib del_peer "$PEER_NID" >/dev/null
	lnet_ping "$PEER_NID" >/dev/null || return
	nap 3
	before=$(rxe_counter sent_pkts)
	nap "$1"
	echo $(($(rxe_counter sent_pkts) - before))
}

# A keepalive is one message and the acknowledgement of it.
keepalives() {
	local some none
	echo 5 >"$P/keepalive"
	some=$(packets_in 25)
	echo 0 >"$P/keepalive"
	none=$(packets_in 15)
	echo 100 >"$P/keepalive"
	echo "with 5 s: ${some:-?} packets in 25 s; with 0: ${none:-?} in 15 s"
	[ "${some:-0}" -ge 1 ] && [ "$some" -le 12 ] && [ "$none" = 0 ]
}

mtu_is() {
	lnet_ping "$PEER_NID" || return
	lctl --net o2ib conn_list | tee /dev/stderr | grep -q "^$PEER_NID mtu $1\$"
}

mtu_1024() {
	local rc=0
	mtu_is 4096 && net_del && with_params ib_mtu=1024 -- with_net -- mtu_is 1024 || rc=1
	net_add && return $rc
}

# rc_packets FILE FILTER: packets of reliable connections in a capture.
rc_packets() { tcpdump -r "$1" -nn "udp[8] < 0x20 and $2" 2>/dev/null | wc -l; }

tos_on_wire() {
	local file=$RUN/tos.$NODE.pcap pid
	tcpdump -i "$NETDEV" -U -w "$file" "src host $MY_IP and udp dst port 4791" \
		2>"$RUN/tos.$NODE.log" &
	pid=$!
	soon 10 grep -q 'listening on' "$RUN/tos.$NODE.log" || return
	lnet_ping "$PEER_NID" || return
	nap 1
	kill -INT $pid
	wait $pid
	echo "$(rc_packets "$file" 'ip[1] & 0xfc = 104') packets with it," \
		"$(rc_packets "$file" 'ip[1] & 0xfc != 104') without"
	[ "$(rc_packets "$file" 'ip[1] & 0xfc = 104')" -ge 2 ] &&
		is 'packets without' "$(rc_packets "$file" 'ip[1] & 0xfc != 104')" 0
}

# Another address of node 2 is a peer that knows 256 fragments only.
OLD_IP=10.98.0.66

ping_old_peer() {
	local i
	for ((i = 0; i < 600 * SLOW; i++)); do
		[ ! -e "$RUN/asked" ] || break
		nap 0.1
	done
	lnet_ping $OLD_IP@o2ib
}

be_old_peer() { python3 "$TREE/tests/kernel/oldpeer_ping.py" $OLD_IP "$PEER_IP" --asked "$RUN"; }

old_peer() {
	sync_point before-old
	if node_is 2; then
		run insmod "$KO/kor_evil.ko"
		run ip addr add $OLD_IP/24 dev "$NETDEV"
		item '44 a peer with 256 fragments connects' be_old_peer
		run rmmod kor_evil
		run ip addr del $OLD_IP/24 dev "$NETDEV"
	else
		item '44 a peer with 256 fragments is pinged' ping_old_peer
		: >"$RUN/over"
	fi
	sync_point old 160
}

check_connections_both() {
	anew '40 conns_per_peer' '--conns-per-peer 4' '--conns-per-peer 4' several_conns 4
	anew '43 depth 32 to 8' '--peer-credits 32' '' depths_differ
	anew '43 depth 8 to 32' '' '--peer-credits 32' depths_differ
	old_peer
	require_privileged
	stale
	early_reject
	no_listener
	anew '53 keepalive' '' '' keepalives
	anew '54 MTU in use' '' '' mtu_1024
	anew '55 tos on the wire' '--tos 104' '' tos_on_wire
}

