# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 60
# Memory that LNet says is a GPU's is refused, on both ends, and not taken for the host's: a
# transfer would end with status 0, and the GPU's memory be as it was. Nothing is attracted to a
# device near a GPU.

# shellcheck source=tests/lnet/standin.sh
. "$TREE/tests/lnet/standin.sh"

gpu() { echo "$1" >$SI/gpu || fail 'the stand-in knows no GPU'; }
pings() { si ping "$PEER_NID" timeout_ms=2000 >/dev/null; }
put_works() { si put "$PEER_NID" size=100000 count=2 ack=1 timeout_ms=5000 >/dev/null; }
get_works() { si get "$PEER_NID" size=100000 count=2 timeout_ms=5000 >/dev/null; }
small_put_works() { si put "$PEER_NID" size=100 count=1 ack=1 timeout_ms=3000 >/dev/null; }

load_lnd timeout=10
run si net add o2ib0 "if=$NETDEV" >/dev/null
sync_point up
if node_is 1; then
	wait_for 20 pings
	run put_works
	run get_works
	gpu Y
	run_fails put_works
	run_fails get_works
	run_fails small_put_works
	expect_at_least 'refusals of the sender' "$(lnd_counter gpu_refused)" 4
	expect 'preference for a GPU' "$(si dev_prio o2ib0 0 | si_value prio)" 4294967295
	gpu N
fi
sync_point ours 60
! node_is 2 || gpu Y
sync_point theirs
if node_is 1; then
	run_fails put_works
	run_fails get_works
	run_fails small_put_works
fi
sync_point tried 60
if node_is 2; then
	gpu N
	expect_at_least 'refusals of the receiver' "$(lnd_counter gpu_refused)" 3
fi
sync_point host
if node_is 1; then
	wait_for 20 put_works
	run get_works
fi
sync_point end 60
run si_clean
run si net del o2ib0 >/dev/null
unload_lnd
