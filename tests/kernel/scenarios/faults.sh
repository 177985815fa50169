# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 180
# kernels: um
# Needs modules built with KOR_DMA_CHECK=1, whose shims fail on demand. Starting an NI fails at
# each of its set-up calls, then works; connecting fails at each of its calls, on either end;
# QPs are refused until the queues are smaller, and both ends agree on the smaller depth; DMA
# maps fail and merge under traffic, and posts fail. Nothing is ever left; what comes next works.

# shellcheck source=tests/lnet/standin.sh
. "$TREE/tests/lnet/standin.sh"

KNOBS=/sys/kernel/debug/ko2iblnd_dma_check
CONNS=/sys/kernel/debug/ko2iblnd/conns
# Of a start's hundreds of calls, all alike but the first and the last, the debug kernel fails some.
[ "$KERNEL" = um ] && STRIDE=5 || STRIDE=37

knob() { echo "$2" >$KNOBS/"$1" || fail "no knob $1"; }
knob_value() { cat $KNOBS/"$1"; }
calls() { knob_value fail_call; }

nothing_lives() { [ -z "$(awk '$1 == "live" && $3 != 0' "$STATS")" ]; }
no_conns() { [ ! -s $CONNS ]; }
# depth: of the one connection that is up; nothing without one.
depth() { sed -n 's/.* state 3 depth \([0-9]*\) .*/\1/p' $CONNS | sort -u; }
has_depth() { [ -n "$(depth)" ]; }

forget_peer() {
	si lctl del_peer o2ib0 >/dev/null || true
	wait_for 20 no_conns
}

ping_works() { si ping "$PEER_NID" timeout_ms=5000 >/dev/null; }

# traffic_works: messages of each kind, once the peer may be tried again.
traffic_works() {
	wait_for 30 ping_works
	run si put "$PEER_NID" size=100 count=20 conc=10 ack=1 >/dev/null
	run si put "$PEER_NID" size=200000 count=20 conc=10 ack=1 >/dev/null
	run si get "$PEER_NID" size=200000 count=20 conc=10 >/dev/null
}

# start_fails K: starting an NI whose call K fails.
start_fails() {
	knob fail_call "$1"
	run_fails si net add o2ib0 "if=$NETDEV" >/dev/null
	[ "$(calls)" -ge "$1" ] || fail "the start failed before call $1"
	nothing_lives || { grep ^live "$STATS"; fail "call $1 of the start left something"; }
	expect "dma maps after call $1 failed" "$(knob_value live)" 0
	expect "references after call $1 failed" "$(cat /sys/module/ko2iblnd/refcnt)" 0
}

starts() {
	local k all
	knob fail_call 0
	run si net add o2ib0 "if=$NETDEV" >/dev/null
	all=$(calls)
	run si net del o2ib0 >/dev/null
	expect_at_least 'calls of a start' "$all" 70
	for ((k = 1; k <= all; k += k < 8 || (k >= 60 && k < 76) || k > all - 4 ? 1 : STRIDE)); do
		start_fails "$k"
	done
	start_fails "$all"
	knob fail_call $((all + 1))
	run si net add o2ib0 "if=$NETDEV" >/dev/null
	expect 'calls of a start' "$(calls)" "$all"
	knob fail_call 0
	ok "a start failed at each of its $all calls that was tried"
}

# refuse NAME K1 K2: node 1 connects while K1 QPs are refused there and K2 on node 2; the depth
# that both ends have is left in DEPTH.
refuse() {
	local before want=$((NODE == 1 ? $2 : $3))
	forget_peer
	sync_point "$1-forgotten" 60
	before=$(lnd_counter limits_lowered)
	knob fail_qp "$want"
	sync_point "$1-armed"
	! node_is 1 || traffic_works
	sync_point "$1-connected" 90
	DEPTH=$(depth)
	[ -n "$DEPTH" ] || fail "$1: no connection"
	expect "$1: refusals left" "$(knob_value fail_qp)" 0
	expect "$1: limits lowered" $(($(lnd_counter limits_lowered) - before)) "$want"
	put "$1" "$DEPTH"
	sync_point "$1-depth"
	expect "$1: depth on both ends" "$DEPTH" "$(get_peer "$1")"
	! node_is 2 || traffic_works
	sync_point "$1-done" 90
}

refusals() {
	local k lowering=0 d1 d2
	refuse whole 0 0
	local whole=$DEPTH
	for ((k = 6; k < 30; k += 3)); do
		refuse "active-$k" $k 0
		[ "$DEPTH" -eq "$whole" ] || { lowering=$k; break; }
	done
	[ "$lowering" -gt 0 ] || fail 'the depth never went down'
	d1=$DEPTH
	refuse active $((lowering + 2)) 0
	d2=$DEPTH
	[ "$d2" -lt "$d1" ] || fail "depth $d1, then $d2, refused on node 1"
	refuse passive 0 $((lowering + 2))
	expect 'depth, refused on node 2' "$DEPTH" "$d2"
	refuse both "$lowering" "$lowering"
	[ "$DEPTH" -lt "$d1" ] || fail "depth $DEPTH, refused on both"
	ok "depth $whole: $d1 $d2 $DEPTH after refusals from $lowering on"
	refuse whole-again 0 0
	expect 'depth without refusals' "$DEPTH" "$whole"
}

# refuse_all SIDE: QPs are never there on node SIDE: the message fails, later ones work.
refuse_all() {
	forget_peer
	sync_point "never-$1" 60
	! node_is "$1" || knob fail_qp 1000000
	sync_point "never-$1-armed"
	if node_is 1; then
		run_fails si ping "$PEER_NID" timeout_ms=$((60000 * SLOW)) >/dev/null
	fi
	sync_point "never-$1-failed" 90
	knob fail_qp 0
	forget_peer
	sync_point "never-$1-over" 60
	! node_is 1 || traffic_works
	sync_point "never-$1-works" 90
}

# refuse_for_good SIDE: an error other than ENOMEM asks for nothing smaller.
refuse_for_good() {
	local before
	forget_peer
	sync_point "final-$1" 60
	before=$(lnd_counter limits_lowered)
	if node_is "$1"; then
		knob qp_errno 22
		knob fail_qp 1
	fi
	sync_point "final-$1-armed"
	if node_is 1; then
		run_fails si ping "$PEER_NID" timeout_ms=$((60000 * SLOW)) >/dev/null
	fi
	sync_point "final-$1-failed" 90
	expect 'refusals left' "$(knob_value fail_qp)" 0
	expect 'limits lowered by EINVAL' "$(lnd_counter limits_lowered)" "$before"
	knob qp_errno 12
	! node_is 1 || traffic_works
	sync_point "final-$1-works" 90
}

# connect_fails SIDE K: call K on node SIDE fails when node 1 connects.
connect_fails() {
	local name=connect-$1-$2 rc=0
	forget_peer
	sync_point "$name" 60
	! node_is "$1" || knob fail_call "$2"
	sync_point "$name-armed"
	if node_is 1; then
		si ping "$PEER_NID" timeout_ms=$((60000 * SLOW)) >/dev/null || rc=$?
		wait_for 30 ping_works
		run si put "$PEER_NID" size=100000 ack=1 >/dev/null
		say "call $2 on node $1: $([ $rc -eq 0 ] && echo connected all the same || echo failed)"
	fi
	sync_point "$name-over" 90
	if node_is "$1"; then
		[ "$(calls)" -ge "$2" ] || fail "only $(calls) calls, not $2"
		knob fail_call 0
	fi
}

# connects SIDE: the calls of node SIDE when node 1 connects, as counted, fail.
connects() {
	local k all
	forget_peer
	sync_point "count-$1" 60
	knob fail_call 0
	sync_point "count-$1-armed"
	! node_is 1 || wait_for 30 ping_works
	sync_point "count-$1-over" 60
	put "calls-$1" "$(calls)"
	sync_point "count-$1-put"
	all=$(cat "$RUN/value.calls-$1.$1")
	for k in 1 2 3 4 5 6 7 8 $((all / 2)) $((all - 1)) "$all"; do
		connect_fails "$1" "$k"
	done
}

# maps KNOB VALUE: traffic with maps that fail or merge. What LNet sees is an error or right data.
maps() {
	local kind out
	wait_for 30 ping_works
	sync_point "$1" 60
	knob "$1" "$2"
	for kind in 'put ack=1' get; do
		# shellcheck disable=SC2086
		set -- "$1" "$2" $kind
		# shellcheck disable=SC2086 # none or one
		out=$(si "$3" "$PEER_NID" size=100000 style=contig sstyle=contig count=100 conc=8 \
			max_ms=$((20000 * SLOW)) timeout_ms=$((3000 * SLOW)) ${4-}) || true
		say "$1 $2: $3: ${out//$'\n'/ }"
		expect "$3 with bad data" "$(si_value bad_data <<<"$out")" 0
		[ "$1" != merge ] || expect "$3 with merged maps" "$(si_value errors <<<"$out")" 0
		set -- "$1" "$2"
	done
	sync_point "$1-done" 120
	knob "$1" 0
	sync_point "$1-off"
	traffic_works
	sync_point "$1-works" 60
}

post_failed() { [ "$(knob_value fail_post)" = 0 ]; }

# posts SIDE: posting fails on node SIDE, again and again, with traffic from both.
posts() {
	local i before errors closed
	wait_for 30 ping_works
	sync_point "posts-$1" 60
	before=$(lnd_counter post_error) errors=$(lnd_counter closed_error)
	si put "$PEER_NID" size=0 size_max=50000 count=100000 conc=8 ack=1 \
		max_ms=$((6000 * SLOW)) timeout_ms=$((3000 * SLOW)) >"$RUN/posts-$1.put.$NODE" &
	si get "$PEER_NID" size=0 size_max=50000 count=100000 conc=8 \
		max_ms=$((6000 * SLOW)) timeout_ms=$((3000 * SLOW)) >"$RUN/posts-$1.get.$NODE" &
	if node_is "$1"; then
		for ((i = 0; i < 8; i++)); do
			nap 0.3
			knob fail_post 1
			wait_for 5 post_failed
		done
		closed=$(($(lnd_counter closed_error) - errors))
		expect_at_least 'posts that failed' $(($(lnd_counter post_error) - before)) 6
		expect_at_least 'connections that failed' "$closed" 3
	fi
	wait
	say "posts: put: $(tr '\n' ' ' <"$RUN/posts-$1.put.$NODE")"
	say "posts: get: $(tr '\n' ' ' <"$RUN/posts-$1.get.$NODE")"
	expect 'bad data in PUTs' "$(si_value bad_data <"$RUN/posts-$1.put.$NODE")" 0
	expect 'bad data in GETs' "$(si_value bad_data <"$RUN/posts-$1.get.$NODE")" 0
	sync_point "posts-$1-done" 120
	traffic_works
	sync_point "posts-$1-works" 60
}

load_lnd timeout=$((20 * SLOW)) peer_credits=32
[ -d $KNOBS ] || fail 'the modules were built without KOR_DMA_CHECK=1'
starts
sync_point up 170
refusals
refuse_all 1
refuse_all 2
refuse_for_good 1
refuse_for_good 2
connects 1
connects 2
posts 1
posts 2
maps merge 1
expect_at_least 'maps merged' "$(knob_value merged)" 1
failed=$(knob_value failed)
maps fail_nth 13
expect_at_least 'maps that failed' $(($(knob_value failed) - failed)) 3
sync_point clean
run si_clean
run si net del o2ib0 >/dev/null
nothing_lives || { grep ^live "$STATS"; fail 'something is left'; }
unload_lnd
dmesg | grep -q 'dma-check: clean' || fail 'the check of DMA did not end clean'
