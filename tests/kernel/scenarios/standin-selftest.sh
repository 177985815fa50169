# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 120
# fast
# The LNet stand-in alone, over a driver that stays in memory: its traffic arrives, and each of
# its checks fires when the driver breaks the rule. No node needs the other.

# shellcheck source=tests/lnet/standin.sh
. "$TREE/tests/lnet/standin.sh"

A=10.9.0.1@o2ib B=10.9.0.2@o2ib
BAD=/sys/module/lnd_loop/parameters/bad

start() {
	load_standin "$@"
	run insmod "$KO/lnd_loop.ko"
	run si net add o2ib0 nid=$A cpts=0 >/dev/null
	run si net add o2ib0 nid=$B >/dev/null
}

stop() {
	run si net del o2ib0 >/dev/null
	run rmmod lnd_loop
	run rmmod lnet_standin
}

no_violations() { expect "violations after $1" "$(si_check total)" 0; }

# good COMMAND...: it must succeed, and nothing be violated.
good() {
	local out
	out=$(si "$@") || fail "$* -> $out"
}

traffic() {
	local size style
	for size in 0 1 3976 3977 4096 65536 1048576; do
		good put $B size=$size count=20 conc=4
		good put $B size=$size count=20 conc=4 ack=1 off=1000 soff=3001
		good get $B size=$size count=20 conc=4 off=9 soff=4095
		good put $B size=$size count=5 drop=1
		good get $B size=$size count=5 nomatch=1
		good put $B size=$size count=5 conc=5 ack=1 delay_ms=50
		good put $B size=$size count=5 ack=1 trunc=1
		good get $B size=$size count=5 trunc=1
		for style in scatter contig; do
			good put $B size=$size style=$style sstyle=$style ack=1 count=5 off=77
			good get $B size=$size style=$style sstyle=$style count=5
		done
		no_violations "traffic of $size bytes"
		say "$size bytes: ok"
	done
	good put $B size=400000 style=gap sstyle=gap off=100 ack=1 count=5
	good put $B size=5000 roff=3333 ack=1 count=5
	good get $B size=5000 roff=3333 count=5
	good put $B size=1 size_max=100000 off_max=4095 ack=1 count=500 conc=32
	good ping $B count=10
	good put 10.9.0.1@o2ib size=70000 ack=1		# to itself
	no_violations "traffic"
}

refused() {
	run_fails si put 10.9.0.9@o2ib size=10 >/dev/null	# nobody there
	run_fails si put $B size=2000000 >/dev/null
	run_fails si put $B sise=20 >/dev/null
	run_fails si net add o2ib0 nid=$A >/dev/null		# exists
	run_fails si net add o2ib1 nid=10.9.0.3@o2ib1 reject=1 >/dev/null
	run_fails rmmod lnd_loop
	run_fails rmmod lnet_standin
	no_violations "refused commands"
}

tunables() {
	run si nl_set o2ib0 ntx=33 tos=-1 >/dev/null
	expect ntx "$(si nl_get o2ib0 | si_value ntx)" 33
	expect tos "$(si nl_get o2ib0 | si_value tos)" -1
	expect map_on_demand "$(si nl_get o2ib0 backup=1 | si_value map_on_demand)" false
	run si lctl conn_list o2ib0 >/dev/null
	run_fails si lctl raw o2ib0 1 >/dev/null
	run si fault hstatus=9 every=3 count=2 >/dev/null
	expect "faults" "$(si put $B size=10 count=9 | si_value errors)" 2
	run si fault off >/dev/null
}

# queueing: more messages at a time than credits; they are all back at the end.
credits() {
	good put $B size=65536 count=60 conc=20 ack=1 delay_ms=20
	grep -q 'min_credits=-' $SI/nis || fail "nothing ever waited for a credit"
	run grep -q 'peer=' $SI/nis
! grep 'peer=' $SI/nis | grep -qv ' credits=8 ' || fail "credits are missing"
}

# NIs are deleted under traffic: nothing hangs, and everything is accounted for.
deletion() {
	local began=$SECONDS
	si put $B size=65536 count=100000 conc=8 ack=1 >"$RUN/traffic.$NODE" &
	si put $B size=100 count=100000 conc=2 ack=1 delay_ms=30000 >/dev/null &
	nap 1
	run si net del o2ib0 >/dev/null
	wait || true
	[ $((SECONDS - began)) -lt 10 ] || fail "deletion under traffic took $((SECONDS - began)) s"
	[ "$(si_value ok <"$RUN/traffic.$NODE")" -gt 0 ] || fail "there was no traffic to delete under"
	[ "$(si_stat rx_drop_purged)" -gt 0 ] || fail "no delayed message was purged"
	expect "live messages" "$(si_stat msgs_live)" 0
	no_violations "deletion under traffic"
	run rmmod lnd_loop
	run rmmod lnet_standin
}

counted_above() { [ "$(si_check "$1")" -gt "$2" ]; }

# bad NUMBER CHECK COMMAND...: with the driver breaking that rule the check must count. The
# driver may break it after the command has its answer, so the rule stays broken until then.
bad() {
	local number=$1 check=$2 before
	shift 2
	before=$(si_check "$check")
	echo "$number" >$BAD
	si "$@" >/dev/null || true
	say "bad=$number, waiting for $check"
	wait_for 5 counted_above "$check" "$before"
	echo 0 >$BAD
}

# One byte that never arrives is seen in every message, whatever it was to be.
bad_every_one() {
	local before
	before=$(si_check data)
	echo 5 >$BAD
	si put $B size=100 ack=1 count=500 conc=4 >/dev/null || true
	wait_for 5 counted_above data $((before + 499))
	echo 0 >$BAD
}

bad_all() {
	start
	bad 1 finalize_unknown put $B size=10
	bad 3 data put $B size=5000 ack=1
	bad 3 data put $B size=100 ack=1
	bad 3 data get $B size=5000
	bad 4 bounds put $B size=100 ack=1
	bad 4 bounds get $B size=100
	bad 5 data put $B size=8192 ack=1
	bad 5 data get $B size=70001
	bad_every_one
	bad 6 reply_len get $B size=5000
	# the debug kernel reports this by itself, which is a failure of the run
	[ "$KERNEL" = um-debug ] || bad 8 context put $B size=10
	bad 10 returned_owned put $B size=10
	bad 11 returned put $B size=10
	bad 12 kiov_changed put $B size=10
	bad 13 reply_left get $B size=5000
	bad 14 notify_time put $B size=10
	bad 16 ni_refs put $B size=10
	bad 17 finalize_status put $B size=10
	bad 18 parse_args put $B size=10 ack=1
	bad 19 reply_request put $B size=10
	bad 20 ni_stale put $B size=10
	bad 21 finalize_owner put $B size=10 ack=1 timeout_ms=100
	stop
}

# These leave something behind that only switching off clears away.
bad_ends() {
	load_standin
	run insmod "$KO/lnd_loop.ko" bad=15
	[ "$(si_check registration)" -gt 0 ] || fail "a second driver did not count"
	run rmmod lnd_loop
	run rmmod lnet_standin

	load_standin del_timeout=1
	run insmod "$KO/lnd_loop.ko" bad=7
	run si net add o2ib0 nid=$A >/dev/null
	run_fails si net del o2ib0 >/dev/null
	[ "$(si_check ni_held)" -gt 0 ] || fail "a held NI did not count"
	echo 9 >$BAD
	run_fails si net add o2ib1 nid=10.9.0.3@o2ib1 >/dev/null
	[ "$(si_check startup)" -gt 0 ] || fail "unset tunables did not count"
	echo 2 >$BAD
	run si net add o2ib2 nid=10.9.0.4@o2ib2 >/dev/null
	si put 10.9.0.4@o2ib2 size=10 timeout_ms=100 >/dev/null || true
	run_fails si net del o2ib2 >/dev/null
	[ "$(si_check finalize_missing)" -gt 0 ] || fail "a lost message did not count"
}

start ncpts=3
traffic
refused
tunables
credits
deletion
ok "traffic"
bad_all
bad_ends
ok "bad drivers"
sync_point "done"
