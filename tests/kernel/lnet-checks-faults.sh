# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# The checklist's items about faults and health (F.5). Sourced by lnet-checks.sh.

injected_error() {
	lnet_ping "$PEER_NID" || return
	lnetctl fault drop add --source "$MY_NID" --dest "$PEER_NID" --rate 1 \
		--health_error remote_timeout
	! lnet_ping "$PEER_NID" || { echo 'not injected'; return 1; }
	lnetctl fault drop del --all
	lnet_ping "$PEER_NID" || lnet_ping "$PEER_NID"
}

link_status() {
	lnetctl net show -v 2 --net o2ib | awk '$1 == "status:" || $1 == "fatal_error:" { print $2 }' |
		tr '\n' ' '
}

link_is() { [ "$(link_status)" = "$1 " ]; }

link_down_up() {
	lnet_ping "$PEER_NID" || return
	ip link set "$NETDEV" down
	soon 10 link_is 'down 1' || return
	ip link set "$NETDEV" up
	soon 10 link_is 'up 0' || return
	lnet_ping "$PEER_NID" || lnet_ping "$PEER_NID" || lnet_ping "$PEER_NID"
}

# net_del with messages under way: it ends within 1.25 times the LND's timeout.
delete_under_load() {
	local start
	echo 10 >"$P/timeout"
	export LST_SESSION=$$
	lst new_session --timeout 60 kor
	lst add_group c "$MY_NID"; lst add_group s "$PEER_NID"; lst add_batch b
	lst add_test --batch b --loop 1000000 --concurrency 8 --from c --to s brw write size=1M
	lst run b
	nap 2
	start=$SECONDS
	bounded 60 lnetctl net del --net o2ib || return
	[ $((SECONDS - start)) -le $((14 * SLOW)) ] || { echo "took $((SECONDS - start)) s"; return 1; }
	lst end_session --force
	echo 50 >"$P/timeout"
}

address_gone_back() {
	lnet_ping "$PEER_NID" || return
	ip addr del "$MY_IP/24" dev "$NETDEV"
	soon 10 link_is 'down 1' || return
	ip addr add "$MY_IP/24" dev "$NETDEV"
	soon 10 link_is 'up 0' || return
	lnet_ping "$PEER_NID" || lnet_ping "$PEER_NID" || lnet_ping "$PEER_NID"
}

# With another name it is the NI's interface all the same, also when its state is looked at anew.
renamed_and_back() {
	lnet_ping "$PEER_NID" || return
	ip link set "$NETDEV" name kor9 && ip link set kor9 down || return
	soon 10 link_is 'down 1' || return
	ip link set kor9 up
	soon 10 link_is 'up 0' || return
	lnet_ping "$PEER_NID" || lnet_ping "$PEER_NID" || lnet_ping "$PEER_NID" || return
	ip link set kor9 name "$NETDEV" || return
	nap 1
	link_is 'up 0' && lnet_ping "$PEER_NID"
}

FAIL_LOC=/sys/kernel/debug/lnet/fail_loc

rpc_errors() { grep -o 'RPC: [0-9]* errors, [0-9]* dropped' "$1"; }

# Ten mappings of memory come out short: messages fail, and nothing is left of them. The first flag
# is "ten times", 0x40000000 LNet's sign that it happened. lnet_selftest may wait for ever for what
# failed, and never sets its count of errors back: it must not grow any more.
registration_fails() {
	lnet_ping "$PEER_NID" || return
	lctl set_param fail_loc=0x1000f201 fail_val=10 || return
	SELFTEST_TIMEOUT=15 lst_test $((24 / SLOW)) brw read size=1M >"$RUN/failing"
	cat "$RUN/failing" $FAIL_LOC
	[ $(($(cat $FAIL_LOC) & 0x40000000)) -ne 0 ] || { echo 'nothing failed'; return 1; }
	lctl set_param fail_loc=0 fail_val=0
	net_del && net_add || return
	lnet_ping "$PEER_NID" || return
	lst_test $((24 / SLOW)) brw read check=full size=1M >"$RUN/mended"
	cat "$RUN/mended"
	! grep -q 'did not end' "$RUN/mended" && is errors "$(rpc_errors "$RUN/mended")" \
		"$(rpc_errors "$RUN/failing")"
}

# check_faults FIRST: with that LND on node 1, where things happen.
check_faults() {
	anew '68 injected error' '' '' injected_error
	anew '69 link down and up' '' '' link_down_up
	if [ "$1" != c ]; then
		anew '70 address removed' '' '' address_gone_back
		anew 'interface renamed' '' '' renamed_and_back
		anew '66 registration fails' '' '' registration_fails
	elif node_is 1; then
		skip '70 address removed' 'the C driver does not come to an end with net del then'
		skip 'interface renamed' 'the C driver looks for the old name'
		skip '66 registration fails' 'the C driver registers all it sends: no session starts'
	fi
	# The last: the other node's selftest session outlives it.
	anew '73 NI deleted under load' '' '' delete_under_load
	! node_is 1 || net_add || fail 'net add'
}

# no_conns: used by wait_for.
no_conns() { [ "$(conns_to_peer)" -eq 0 ]; }

closes_in_time() {
	local start=$SECONDS
	soon 30 no_conns || return
	# The timeout is 10 s, and looked at every now and then.
	[ $((SECONDS - start)) -le $((13 * SLOW)) ] || { echo "took $((SECONDS - start)) s"; return 1; }
}

# busy: pings until there is an end to it. Not lnet_selftest: when its messages fail, its
# session waits for its own work for ever.
busy() {
	# LNet waits uninterruptibly for an answer; the kernel reports what takes 30 s.
	while [ ! -e "$RUN/idle" ]; do
		bounded 60 lnetctl ping --timeout 10 "$PEER_NID"
	done >/dev/null 2>&1
}

# lnet_vanish FIRST SECOND: node 2 cannot be reached any more.
lnet_vanish() {
	if node_is 1; then lnet_load "$1"; else lnet_load "$2"; fi
	echo 10 >"$P/timeout"
	run net_add
	sync_point up
	busy &
	! node_is 1 || wait_for 10 eval '! no_conns'
	nap 1
	sync_point busy 60
	node_is 1 || run ip link set "$NETDEV" down
	sync_point gone
	if node_is 1; then
		item '71 peer vanishes: closed in time' closes_in_time
		item '71 peer vanishes: ping fails' eval '! lnet_ping "$PEER_NID"'
	fi
	sync_point without 90
	: >"$RUN/idle"
	wait
	# Sending that fails while the link is down leaves rxe's QP 1 in the error state for good,
	# so that no connection can be made after that, by the C driver neither.
	! node_is 1 || skip '72 recovery' 'rxe sends no CM messages after a failed one'
	sync_point recovered 120
	item '71 peer vanished: net del' net_del
	sync_point deleted 160
	lnet_unload
	all_items_passed
}
