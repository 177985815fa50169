# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# The checklist's items about data (F.4). Sourced by lnet-checks.sh.

# --- data -----------------------------------------------------------------------------------

high_concurrency() {
	LST_CONCURRENCY=64 lst_test $((10 / SLOW + 1)) brw read check=full size=64k
}

cksum_on() {
	lnet_ping "$PEER_NID" && lst_test 20 ping && lst_test 10 brw read check=full size=1M
}

# With all messages ended, no credit is missing.
credits_return() {
	local all left
	high_concurrency || return
	nap 1
	all=$(peer_value max_ni_tx_credits)
	left=$(peer_value available_tx_credits)
	[ "${all:-0}" -gt 0 ] && is 'available of '"$all" "$left" "$all"
}

peer_value() {
	lnetctl peer show -v --nid "$PEER_NID" | awk -v n="$1:" '$1 == n { print $2; exit }'
}

# ni_stat KIND TYPE: how many LNet messages of a type the NI has sent or received.
ni_stat() {
	lnetctl net show -v 2 --net o2ib |
		awk -v k="$1_stats:" -v n="$2:" '$1 ~ /_stats:/ { on = $1 == k } on && $1 == n { print $2 }'
}

counters_count() {
	local get reply
	lnet_ping "$PEER_NID" || return
	nap 1
	get=$(ni_stat sent get) reply=$(ni_stat received reply)
	lnet_ping "$PEER_NID" || return
	is 'GETs sent' "$(ni_stat sent get)" $((get + 1)) &&
		is 'REPLYs received' "$(ni_stat received reply)" $((reply + 1))
}

check_data() {
	local kind
	item '57 small RPC' lst_test $((200 / SLOW)) ping
	for kind in read write; do
		item "59 $kind 1M" lst_test $((24 / SLOW)) brw $kind check=full size=1M
		item "58 $kind 3976" lst_test 20 brw $kind check=full size=3976
		item "58 $kind 3984" lst_test 20 brw $kind check=full size=3984
		item "60 $kind 6144 at 2000" lst_test 20 brw $kind check=full size=6144 off=2000
		item "60 $kind 1046528 at 2000" lst_test 10 brw $kind check=full size=1046528 off=2000
	done
	item '63 high concurrency' high_concurrency
	item '64 credit accounting' credits_return
	item '65 counters' counters_count
}

# checksums FIRST SECOND: on on both ends. The C driver drops its own replies then.
checksums() {
	if [ "$*" != 'ours ours' ]; then
		! node_is 1 || skip '62 checksums' 'the C driver cannot check what it sums up itself'
		return
	fi
	echo 1 >"$P/cksum"
	sync_point cksum-on 60
	! node_is 1 || item '62 checksums' cksum_on
	sync_point cksum-used 120
	echo 0 >"$P/cksum"
}

# --- in step with node 2 ------------------------------------------------------------------

send_puts() { insmod "$KO/kor_put.ko" "target=$PEER_NID" && rmmod kor_put; }

puts_came() {
	local counts=/sys/module/kor_put/parameters
	is 'messages with wrong bytes' "$(cat $counts/bad)" 0 && is 'good messages' "$(cat $counts/good)" 20
}

# puts_from NODE: messages of scattered memory from there; the other node looks at what came.
puts_from() {
	sync_point "puts-$1"
	node_is "$1" || run insmod "$KO/kor_put.ko"
	sync_point "puts-awaited-$1"
	! node_is "$1" || item "61 scattered memory, node $1 sends" send_puts
	sync_point "puts-sent-$1" 120
	if ! node_is "$1"; then
		item "61 scattered memory of node $1 arrives" puts_came
		run rmmod kor_put
	fi
	sync_point "puts-seen-$1"
}

check_data_both() {
	puts_from 1
	puts_from 2
	anew '63 depth 64' '--peer-credits 64' '--peer-credits 64' high_concurrency
}
