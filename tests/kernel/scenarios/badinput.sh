# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 180
# Node 2 also plays a hostile peer, from an address of its own: every malformed message of the
# specification's list, one connection each. Node 1 must refuse or close each, count it, say so,
# keep nothing, and go on serving its good peer on node 2 all the while.

# shellcheck source=tests/lnet/standin.sh
. "$TREE/tests/lnet/standin.sh"

EVIL_IP=10.98.0.66

# counted: the sum of all counters of bad outcomes.
counted() { awk '$1 == "counter" { n += $3 } END { print n + 0 }' "$STATS"; }

no_conns_to_evil() { ! grep -q "$EVIL_IP@" /sys/kernel/debug/ko2iblnd/conns; }

load_lnd
run si net add o2ib0 "if=$NETDEV" >/dev/null
sync_point up

if node_is 2; then
	run insmod "$KO/kor_evil.ko"
	run ip addr add "$EVIL_IP/24" dev "$NETDEV"
	sync_point armed
	within 120 python3 "$TREE/tests/kernel/evil.py" "$EVIL_IP" "$PEER_IP" >"$RUN/evil"
	touch "$RUN/evil.over"
	put cases "$(awk '/passed/ { print $2 }' "$RUN/evil")"
	sync_point over 150
	run rmmod kor_evil
	run ip addr del "$EVIL_IP/24" dev "$NETDEV"
else
	sync_point armed
	before=$(counted)
	pings=0
	until [ -e "$RUN/evil.over" ] || [ -e "$RUN/failed.2" ]; do
		si ping "$PEER_NID" >/dev/null || fail "the good peer was not served (ping $pings)"
		pings=$((pings + 1))
		nap 0.2
	done
	sync_point over 150
	expect_at_least 'pings of the good peer meanwhile' "$pings" 5
	# Not each case counts more than once, and the good messages among them not at all.
	expect_at_least 'bad outcomes counted' $(($(counted) - before)) \
		$(($(get_peer cases) * 8 / 10))
	dmesg | grep -q "$EVIL_IP@o2ib" || fail "no log line names $EVIL_IP@o2ib"
	wait_for 30 no_conns_to_evil
	ok "$(get_peer cases) cases, $pings pings"
fi

sync_point clean
si_clean || fail "LNet's rules were broken"
run si ping "$PEER_NID" >/dev/null
sync_point last
within 30 si net del o2ib0 >/dev/null
unload_lnd
