# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 90
# Needs modules built with KOR_DMA_CHECK=1. A device refuses to deregister the region of a GET whose
# peer has gone: the peer might still write the memory, so the message is not given back before
# a later try succeeds. The NI goes on meanwhile.

# shellcheck source=tests/lnet/standin.sh
. "$TREE/tests/lnet/standin.sh"

KNOBS=/sys/kernel/debug/ko2iblnd_dma_check
live_messages() { awk '$1 == "live" && $2 == "messages" { print $3 }' "$STATS"; }
refused_twice() { [ "$(lnd_counter dereg_failed)" -ge 2 ]; }
pings() { si ping "$PEER_NID" timeout_ms=2000 >/dev/null; }

load_lnd timeout=10
run si net add o2ib0 "if=$NETDEV" >/dev/null
sync_point up
if node_is 1; then
	wait_for 20 pings
	echo 1000000 >$KNOBS/fail_dereg || fail 'no knob fail_dereg'
fi
sync_point connected 60
! node_is 2 || run ip link set "$NETDEV" down
sync_point gone
if node_is 1; then
	si get "$PEER_NID" size=1000000 count=1 timeout_ms=200000 >"$RUN/get" &
	get=$!
	wait_for 60 refused_twice
	nap 1
	expect 'messages that LNet has not got back' "$(live_messages)" 2
	[ -d "/proc/$get" ] || fail 'the GET has ended while the peer may write its memory'
	ok 'the message is kept while its region is registered'
	echo 0 >$KNOBS/fail_dereg
	# It ends, and badly.
	! wait "$get" || fail 'the GET succeeded'
	expect 'messages that LNet has not got back' "$(live_messages)" 0
	ok 'and ends when the region is gone'
fi
sync_point "done" 120
! node_is 2 || run ip link set "$NETDEV" up
sync_point back
if node_is 1; then
	wait_for 30 pings
	run si get "$PEER_NID" size=1000000 count=4 timeout_ms=20000 >/dev/null
fi
sync_point end 60
run si_clean
run si net del o2ib0 >/dev/null
unload_lnd
