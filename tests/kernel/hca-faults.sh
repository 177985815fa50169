# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Faults of the RDMA device in memory under the LND. After each one nothing is lost or left, and the
# next try works.

# shellcheck source=tests/lnet/standin.sh
. "$TREE/tests/lnet/standin.sh"
# shellcheck source=tests/kernel/hca.sh
. "$TREE/tests/kernel/hca.sh"

TRIED=0 SEEN=0

hca_faults_up() {
	hca_load
	hca_add 0 $HCA_A $HCA_B
	load_lnd timeout=$((10 * SLOW)) ntx=32
}

hca_faults_down() {
	run si_clean
	unload_lnd
	hca_unload
}

hca_ping() { si ping $NID_B ni=$NID_A timeout_ms=$((2000 * SLOW)) >/dev/null; }

# hca_messages: some of each kind; false when one failed. No byte is wrong, whatever happens.
hca_messages() {
	local kind rc=0
	for kind in put get; do
		# shellcheck disable=SC2046 # one word, or none
		si $kind $NID_B ni=$NID_A size=0 size_max=200000 count=12 conc=4 \
			timeout_ms=$((3000 * SLOW)) $([ $kind = get ] || echo ack=1) \
			>"$RUN/messages" || rc=1
		expect "bad data in ${kind}s" "$(si_value bad_data <"$RUN/messages")" 0
	done
	return $rc
}

# hca_recovers WHAT: all of it works again, without a fault.
hca_recovers() {
	hca_cmd 0 clear faults
	wait_for 10 hca_ping
	hca_messages || { cat "$RUN/messages"; fail "messages still fail after $1"; }
}

# hca_fault NTH WORD...: this fault hits at the NTH time, under messages.
hca_fault() {
	local nth=$1 before
	shift
	before=$(hca_count 0 faults)
	hca_cmd 0 "$@" "$nth"
	hca_messages || true
	TRIED=$((TRIED + 1))
	SEEN=$((SEEN + $(hca_count 0 faults) - before))
	hca_recovers "$* $nth"
}

# hca_statuses STATUS...: each request of each kind that the LND posts ends so once.
hca_statuses() {
	local kind status
	for kind in send write reg inv recv; do
		for status; do
			hca_fault 3 complete $kind "$status"
		done
	done
}

# hca_calls_fail NTH...: each call that carries messages fails.
hca_calls_fail() {
	local op nth
	for op in poll_cq arm_cq post_send post_recv map_mr_sg; do
		for nth; do
			hca_fault "$nth" fail $op 12
		done
	done
}

# hca_dereg_fails: of an MR whose invalidation has failed (S6): its memory is not given back before
# the device takes it, and then it is.
hca_dereg_fails() {
	hca_cmd 0 fail dereg_mr 5 1
	hca_cmd 0 complete inv 22 1
	hca_messages || true
	wait_for 10 hca_dereg_failed
	hca_recovers 'an MR could not be deregistered'
	wait_for 10 hca_no_messages
	hca_down
	hca_empty 0
	hca_nis
}
hca_no_messages() { [ "$(lnd_live messages)" = 0 ]; }
hca_dereg_failed() { [ "$(hca_failed 0 dereg_mr)" = 1 ]; }

hca_is_gone() { [ ! -e $HCA_DEBUG/hca0 ]; }

# hca_vanishes OP NTH: the device goes at that call, under messages; with a new one, all works.
hca_vanishes() {
	si lctl del_peer o2ib0 >/dev/null || true
	hca_cmd 0 vanish "$1" "$2"
	hca_messages || true
	wait_for 20 hca_is_gone
	run rdma link add hca0 type kor_hca netdev hnet0
	TRIED=$((TRIED + 1))
	hca_recovers "the device had gone at $1 $2"
}

# A round: two NIs start, connect, transfer, and stop. ENDED is where it failed, or empty.
hca_start() {
	si net add o2ib0 if=hnet0 >/dev/null 2>&1 && si net add o2ib0 if=hnet0:1 >/dev/null 2>&1
}

hca_transfer() {
	local kind
	for kind in 'put size=100 ack=1' 'put size=50000 ack=1' 'get size=50000'; do
		# shellcheck disable=SC2086
		set -- $kind
		si "$1" $NID_B ni=$NID_A "${@:2}" timeout_ms=$((2000 * SLOW)) >"$RUN/messages" || {
			expect "bad data in $kind" "$(si_value bad_data <"$RUN/messages")" 0
			return 1
		}
	done
}

hca_stop() {
	local nid
	for nid in $NID_B $NID_A; do
		! grep -q "^nid=$nid " $SI/nis || run si net del o2ib0 "nid=$nid" >/dev/null
	done
}

hca_round() {
	ENDED=
	if ! hca_start; then
		ENDED=start
	elif ! hca_transfer; then
		ENDED=transfer
	fi
	hca_stop
	nothing_lives || { grep ^live "$STATS"; fail "the LND has something left after $1"; }
	hca_empty 0
}

# hca_round_works WHAT
hca_round_works() {
	hca_cmd 0 clear faults
	hca_round "a round after $1"
	[ -z "$ENDED" ] || { cat "$RUN/messages"; fail "the $ENDED failed after $1"; }
}

# hca_round_calls: in CALLS, those of a round.
hca_round_calls() {
	hca_cmd 0 fail any 12 1000000
	hca_round 'a whole round'
	expect 'end of a whole round' "$ENDED" ''
	CALLS=$(hca_calls 0 any)
	expect_at_least 'calls of a round' "$CALLS" 100
}

# hca_round_fails K: its K-th call fails; then a whole one works.
hca_round_fails() {
	hca_cmd 0 fail any 12 "$1"
	hca_round "call $1 had failed"
	TRIED=$((TRIED + 1))
	SEEN=$((SEEN + $(hca_failed 0 any)))
	hca_round_works "call $1 had failed"
}
