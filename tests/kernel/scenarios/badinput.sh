# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 240
# Node 2 also plays a hostile peer, from an address of its own: every malformed message of the
# specification's list, one connection each, and bad answers to connections that node 1 starts.
# Node 1 must refuse, close or fail each, count it, say so, keep nothing, and go on serving its
# good peer on node 2 all the while.

# shellcheck source=tests/lnet/standin.sh
. "$TREE/tests/lnet/standin.sh"

EVIL_IP=10.98.0.66

# counted: the sum of all counters of bad outcomes.
counted() { awk '$1 == "counter" { n += $3 } END { print n + 0 }' "$STATS"; }

no_conns_to_evil() { ! grep -q "$EVIL_IP@" /sys/kernel/debug/ko2iblnd/conns; }

# A message to a peer that refuses for ever must fail after the connect timeout plus 10 s; it is a
# quarter of this, and 40 connections must be asked for within it.
load_lnd timeout=$((SLOW > 1 ? 120 : 8))
run si net add o2ib0 "if=$NETDEV" >/dev/null
sync_point up

if node_is 2; then
	run insmod "$KO/kor_evil.ko"
	run ip addr add "$EVIL_IP/24" dev "$NETDEV"
	sync_point armed
	within 180 python3 "$TREE/tests/kernel/evil.py" "$EVIL_IP" "$PEER_IP" --asked "$RUN" \
		>"$RUN/evil"
	touch "$RUN/evil.over"
	put cases "$(awk '/passed/ { print $2 }' "$RUN/evil")"
	sync_point over 200
	run rmmod kor_evil
	run ip addr del "$EVIL_IP/24" dev "$NETDEV"
else
	sync_point armed
	before=$(counted)
	pings=0 asked=0
	until [ -e "$RUN/evil.over" ] || [ -e "$RUN/failed.2" ]; do
		si ping "$PEER_NID" >/dev/null || fail "the good peer was not served (ping $pings)"
		pings=$((pings + 1))
		if [ -e "$RUN/go.$((asked + 1))" ]; then
			asked=$((asked + 1))
			rc=0
			si ping "$EVIL_IP@o2ib" >/dev/null || rc=1
			echo $rc >"$RUN/went.$asked"
		else
			nap 0.2
		fi
	done
	sync_point over 200
	expect_at_least 'pings of the good peer meanwhile' "$pings" 5
	# The good messages among the cases do not count.
	expect_at_least 'bad outcomes counted' $(($(counted) - before)) \
		$(($(get_peer cases) * 8 / 10))
	dmesg | grep -q "$EVIL_IP@o2ib" || fail "no log line names $EVIL_IP@o2ib"
	# A case is a connection or up to ten attempts at one; whatever it does, the log does not drown.
	lines=$(dmesg | grep -c 'ko2iblnd: ')
	[ "$lines" -le $(($(get_peer cases) * 3)) ] || fail "$lines log lines"
	wait_for 30 no_conns_to_evil
	ok "$(get_peer cases) cases, $pings pings, $lines log lines"
fi

sync_point clean
si_clean || fail "LNet's rules were broken"
run si ping "$PEER_NID" >/dev/null
sync_point last
run si net del o2ib0 >/dev/null
unload_lnd
