# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 120
# kernels: um um-debug stock
# The life of connections: several to a peer, used in turn; listed, closed and deleted on command,
# one peer or all; made anew when wanted, also when both ends start at a time; a peer that was
# restarted; keepalives on idle ones, and written while they live; ports that must be privileged.

# shellcheck source=tests/lnet/standin.sh
. "$TREE/tests/lnet/standin.sh"

P=/sys/module/ko2iblnd/parameters
conns() { si lctl conn_list o2ib0 | si_value n; }
peers() { si lctl peer_list o2ib0 | si_value n; }
has_conns() { [ "$(conns)" = "$1" ]; }
ping_works() { si ping "$PEER_NID" timeout_ms=5000 >/dev/null; }
ping_must_work() { ping_works || fail "no ping: $1"; }

# The connect timeout is a quarter of it.
load_lnd timeout=$((20 * SLOW)) conns_per_peer=3 keepalive=1
run si net add o2ib0 "if=$NETDEV"
sync_point up

say 'several connections'
expect 'connections at first' "$(conns)" 0
sync_point none
if node_is 1; then
	run si put "$PEER_NID" size=5000 count=60 conc=6 ack=1 >/dev/null
fi
wait_for 20 has_conns 3
expect 'peers' "$(peers)" 1
sync_point connected 30

say 'keepalive'
before=$(lnd_sent NOOP)
nap 4
expect_at_least 'NOOPs of idle connections' "$(($(lnd_sent NOOP) - before))" 3
sync_point idle 30

say 'tunables on connections that live'
echo 0 >$P/keepalive
# They are looked at every second.
nap 3
sync_point quiet
before=$(lnd_sent NOOP)
nap 3
expect 'NOOPs without a keepalive' "$(lnd_sent NOOP)" "$before"
echo 1 >$P/keepalive
echo 1 >$P/cksum
nap 3
expect_at_least 'NOOPs with a keepalive again' "$(($(lnd_sent NOOP) - before))" 1
sync_point summed
ping_must_work 'with checksums'
expect 'connections' "$(conns)" 3
echo 0 >$P/cksum
sync_point live 30

say 'commands'
if node_is 1; then
	out=$(si lctl del_peer o2ib0 1.2.3.4@o2ib) && fail 'deleted a peer that there is not'
	expect 'del_peer of nobody' "$(si_value rc <<<"$out")" -2
	out=$(si lctl disconnect o2ib0 1.2.3.4@o2ib) && fail 'disconnected a peer that there is not'
	expect 'disconnect of nobody' "$(si_value rc <<<"$out")" -2
	out=$(si lctl raw o2ib0 99) && fail 'took an unknown ioctl'
	expect 'unknown ioctl' "$(si_value rc <<<"$out")" -22
	run si lctl debug_peer o2ib0 "$PEER_NID"
	for who in "$PEER_NID" ''; do
		# Attempts that are under way are not disconnected.
		wait_for 20 has_conns 3
		# shellcheck disable=SC2086 # no word at all means everybody
		run si lctl disconnect o2ib0 $who
		wait_for 10 has_conns 0
		ping_must_work "after disconnect $who"
	done
	run si lctl del_peer o2ib0 "$PEER_NID"
	wait_for 10 has_conns 0
	expect 'peers after del_peer' "$(peers)" 0
	ping_must_work 'after del_peer'
fi
sync_point commands 60

say 'both ends connect at a time'
for i in 1 2 3 4 5 6 7 8; do
	si lctl del_peer o2ib0 >/dev/null || true
	sync_point "race-$i"
	ping_must_work "race $i"
	sync_point "raced-$i"
done

say 'the peer starts again'
if node_is 2; then
	run si net del o2ib0
	run si net add o2ib0 "if=$NETDEV"
fi
sync_point again 30
if node_is 1; then
	ping_works || ping_must_work 'after the peer started again'
fi
sync_point pinged-again 30

say 'privileged ports'
if node_is 2; then
	echo 1 >$P/require_privileged_port
fi
sync_point required
if node_is 1; then
	run si lctl del_peer o2ib0
	wait_for 10 has_conns 0
	ping_must_work 'from a privileged port'
	run si lctl del_peer o2ib0
	wait_for 10 has_conns 0
	echo 0 >$P/use_privileged_port
	ping_works && fail 'a port was accepted that is not privileged'
	echo 1 >$P/use_privileged_port
	ping_must_work 'from a privileged port again'
fi
sync_point ports 60
node_is 1 || expect_at_least 'rejected for their port' "$(lnd_counter connreq_unprivileged_port)" 1
sync_point counted
run si_clean
run si net del o2ib0
unload_lnd
