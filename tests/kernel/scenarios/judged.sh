# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 60
# kernels: um
# fast
# judge
# Traffic of every kind under the eyes of tshark: what it decodes of the frames on the way must
# be what our counters say, message by message (tests/kernel/judge.py).

# shellcheck source=tests/lnet/standin.sh
. "$TREE/tests/lnet/standin.sh"

# quiet: nothing was sent or received for a while, so no credit is on its way any more.
quiet() {
	local before
	before=$(grep -E '^(sent|received)' "$STATS")
	nap 0.5
	[ "$before" = "$(grep -E '^(sent|received)' "$STATS")" ]
}

load_lnd
run si net add o2ib0 "if=$NETDEV" >/dev/null
sync_point up
for sender in 1 2; do
	if node_is $sender; then
		run si ping "$PEER_NID" count=5 >/dev/null
		for size in 0 1 3976 3977 65536 1048576; do
			run si put "$PEER_NID" size=$size count=10 conc=4 >/dev/null
			run si put "$PEER_NID" size=$size count=5 ack=1 off=100 soff=7 \
				style=scatter sstyle=scatter >/dev/null
			run si get "$PEER_NID" size=$size count=10 conc=4 >/dev/null
		done
		run si put "$PEER_NID" size=65536 count=3 drop=1 >/dev/null
		run si get "$PEER_NID" size=65536 count=3 nomatch=1 >/dev/null
	fi
	sync_point "sent-$sender" 60
done
wait_for 10 quiet
sync_point quiet
for type in IMMEDIATE PUT_REQ PUT_NAK PUT_ACK PUT_DONE GET_REQ GET_DONE NOOP; do
	expect_at_least "sent $type" "$(lnd_sent $type)" 1
done
keep_stats
sync_point kept
run si net del o2ib0 >/dev/null
unload_lnd
