# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 90
# Payloads of every shape, both ways at a time: random sizes and starts, offsets in the other
# node's buffer, truncation, late and scattered buffers, more messages than credits. Both ends
# verify every byte; buffers that one registration cannot describe end with an error.

# shellcheck source=tests/lnet/standin.sh
. "$TREE/tests/lnet/standin.sh"

acked=0

# good COMMAND...: every message must end as it should.
good() {
	local out
	out=$(si "$@") || fail "$* -> $out"
	[ "$1" != put ] || acked=$((acked + $(si_value ok <<<"$out")))
}

# refused COMMAND...: every message must end with EINVAL, and none be lost or late.
refused() {
	local out
	out=$(si "$@") && fail "worked, but must not: $*"
	expect "EINVAL of $*" "$(si_value errno_22 <<<"$out")" "$(si_value count <<<"$out")"
}

lengths() {
	good put "$PEER_NID" size=0 size_max=20000 off_max=4095 soff=77 style=scatter ack=1 \
		count=200 conc=8
	good get "$PEER_NID" size=0 size_max=20000 off_max=4095 soff=77 style=scatter \
		count=100 conc=8
	good put "$PEER_NID" size=1048576 off=4095 soff=4095 ack=1 count=5
	good get "$PEER_NID" size=1048576 off=4095 soff=4095 count=5
}

offsets() {
	local size
	for size in 100 3976 4000 9000 300000; do
		good put "$PEER_NID" size=$size roff=5001 ack=1 count=5
		good get "$PEER_NID" size=$size roff=5001 count=5
		good put "$PEER_NID" size=$size trunc=1 ack=1 count=5
		good get "$PEER_NID" size=$size trunc=1 count=5
	done
	good put "$PEER_NID" size=1 trunc=1 ack=1 count=5
}

shapes() {
	# an IMMEDIATE over two pages, and fragments that do not fill theirs
	good put "$PEER_NID" size=3000 off=2000 soff=3000 ack=1 count=5
	good get "$PEER_NID" size=3000 off=2000 soff=3000 count=5
	good put "$PEER_NID" size=3000 style=gap sstyle=gap ack=1 count=5
	good get "$PEER_NID" size=3000 style=gap sstyle=gap count=5
	good put "$PEER_NID" size=300000 style=contig sstyle=contig ack=1 count=5
	# the source of an RDMA may have holes, its sink may not
	good put "$PEER_NID" size=20000 style=gap ack=1 count=5
	good get "$PEER_NID" size=20000 sstyle=gap count=5
	refused put "$PEER_NID" size=20000 sstyle=gap ack=1 count=5
	refused get "$PEER_NID" size=20000 style=gap count=5
}

late() {
	good put "$PEER_NID" size=65536 delay_ms=50 ack=1 count=40 conc=20
	good put "$PEER_NID" size=100 delay_ms=50 ack=1 count=40 conc=20
	grep -q 'peer=.* min_credits=-' $SI/nis || fail "no message waited for a credit"
}

# The last ACK is finalized a little after the other node has it.
nothing_lives() { [ "$(si_stat msgs_live)" = 0 ]; }

load_lnd
run si net add o2ib0 "if=$NETDEV"
sync_point up
lengths
offsets
shapes
late
put acked "$acked"
sync_point sent 120
expect "verified messages" "$(si_stat sink_ok)" "$(get_peer acked)"
wait_for 10 nothing_lives
run grep -q 'peer=' $SI/nis
! grep 'peer=' $SI/nis | grep -qv ' credits=8 ' || fail "credits are missing"
run si_clean
sync_point checked
run si net del o2ib0
unload_lnd
