# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 90
# kernels: um um-debug stock
# Several NIs: two nets on one interface share a device and a listener, carry traffic at a time,
# and one goes without the other noticing; an address alias is an NI of its own; two NIs towards
# one NID of the peer keep their connections apart (LU-7734).

# shellcheck source=tests/lnet/standin.sh
. "$TREE/tests/lnet/standin.sh"

CONNS=/sys/kernel/debug/ko2iblnd/conns
MY_ALIAS=10.98.0.1$NODE
PEER_ALIAS=10.98.0.1$PEER
LABEL=$NETDEV:1

listeners() { rdma resource show cm_id | grep -c 'state LISTEN'; }
# conns_to NID: the numbers of the QPs of all connections to it.
conns_to() { awk -v nid="$1" '$1 == nid { print $5 }' $CONNS; }
has_conns_to() { [ "$(conns_to "$1" | wc -w)" = "$2" ]; }

# messages NID [WORD...]: some of each kind; every one must arrive.
messages() {
	local nid=$1
	shift
	run si ping "$nid" "$@" >/dev/null
	run si put "$nid" size=3000 count=20 conc=4 ack=1 "$@" >/dev/null
	run si put "$nid" size=100000 count=20 conc=4 ack=1 "$@" >/dev/null
	run si get "$nid" size=100000 count=20 conc=4 "$@" >/dev/null
}

# together COMMAND...: what is quoted as one word each, at a time.
together() {
	local command pids=() pid
	for command in "$@"; do
		$command &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || fail "of those at a time: $*"
	done
}

load_lnd
say 'two nets on one interface'
run si net add o2ib0 "if=$NETDEV" >/dev/null
run si net add o2ib1 "if=$NETDEV" >/dev/null
expect 'NIs' "$(lnd_live nis)" 2
expect 'devices' "$(lnd_live devs)" 1
expect 'listeners' "$(listeners)" 1
run_fails si net add o2ib1 "if=$NETDEV" >/dev/null
expect 'NIs after one was refused' "$(lnd_live nis)" 2
sync_point two
# One node connects: when both do at once, two connections may come of it, late ones, too.
if node_is 1; then
	run si ping "$PEER_IP@o2ib" >/dev/null
	run si ping "$PEER_IP@o2ib1" >/dev/null
fi
sync_point connected
together "messages $PEER_IP@o2ib" "messages $PEER_IP@o2ib1"
sync_point both-nets 60
has_conns_to "$PEER_IP@o2ib" 1 && has_conns_to "$PEER_IP@o2ib1" 1 ||
	fail "not one connection on each net: $(cat $CONNS)"
sync_point seen

say 'one of them goes'
before=$(conns_to "$PEER_IP@o2ib")
# Node 1 deletes it under traffic from both ends.
si put "$PEER_IP@o2ib1" size=50000 count=100000 conc=4 ack=1 max_ms=4000 timeout_ms=3000 \
	>"$RUN/gone.$NODE" 2>&1 &
gone=$!
nap 1
sync_point going
if node_is 1; then
	run si net del o2ib1 >/dev/null
	expect 'NIs' "$(lnd_live nis)" 1
	expect 'devices' "$(lnd_live devs)" 1
	expect 'listeners' "$(listeners)" 1
	run_fails si ping "$PEER_IP@o2ib1" >/dev/null
fi
messages "$PEER_IP@o2ib"
sync_point gone 60
expect 'the connection of the other net' "$(conns_to "$PEER_IP@o2ib")" "$before"
wait $gone || true
sync_point still
if node_is 1; then
	run si net add o2ib1 "if=$NETDEV" >/dev/null
fi
sync_point back
# What failed has lowered nothing for good.
! node_is 1 || messages "$PEER_IP@o2ib1"
sync_point back-works 60
! node_is 2 || messages "$PEER_IP@o2ib1"
sync_point back-both 60

say 'an alias as an NI'
run ip addr add "$MY_ALIAS/24" dev "$NETDEV" label "$LABEL"
run si net add o2ib2 "if=$LABEL" >/dev/null
expect 'devices with the alias' "$(lnd_live devs)" 2
expect 'listeners with the alias' "$(listeners)" 2
grep -q "nid=$MY_ALIAS@o2ib2 .*fatal=0" $SI/nis || fail "no usable $MY_ALIAS@o2ib2"
sync_point alias
together "messages $PEER_ALIAS@o2ib2" "messages $PEER_IP@o2ib"
sync_point alias-works 60

say 'two NIs towards one NID'
# On node 1 alone: the alias as a second NI of the first net.
if node_is 1; then
	run si net add o2ib0 "if=$LABEL" >/dev/null
	expect 'NIs' "$(lnd_live nis)" 4
	expect 'devices' "$(lnd_live devs)" 2
	together "messages $PEER_NID ni=$MY_NID" "messages $PEER_NID ni=$MY_ALIAS@o2ib"
	has_conns_to "$PEER_NID" 2 || fail "not two connections to $PEER_NID: $(cat $CONNS)"
fi
sync_point apart 60
if node_is 2; then
	has_conns_to "$PEER_NID" 1 || fail "not one connection to $PEER_NID: $(cat $CONNS)"
	has_conns_to "$PEER_ALIAS@o2ib" 1 || fail "not one to $PEER_ALIAS@o2ib: $(cat $CONNS)"
	# Each answers with its own, and is asked by its own.
	together "messages $PEER_NID" "messages $PEER_ALIAS@o2ib"
	has_conns_to "$PEER_ALIAS@o2ib" 1 || fail "a second one to $PEER_ALIAS@o2ib"
	put kept "$(conns_to "$PEER_NID")"
fi
sync_point asked 60
if node_is 1; then
	run si net del o2ib0 "nid=$MY_ALIAS@o2ib" >/dev/null
	has_conns_to "$PEER_NID" 1 || fail "not one connection left: $(cat $CONNS)"
	messages "$PEER_NID"
fi
sync_point one-left 60
if node_is 2; then
	wait_for 10 has_conns_to "$PEER_ALIAS@o2ib" 0
	expect "the connection to $PEER_NID" "$(conns_to "$PEER_NID")" "$(cat "$RUN/value.kept.2")"
fi
sync_point kept 60

run si_clean
for net in o2ib2 o2ib1 o2ib0; do
	run si net del $net >/dev/null
done
expect 'listeners at the end' "$(listeners || true)" 0
[ -z "$(awk '$1 == "live" && $3 != 0' "$STATS")" ] || fail "left: $(grep ^live "$STATS")"
unload_lnd
