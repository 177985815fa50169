# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 90
# Node 2 also plays a peer from before Lustre 2.15 that knows 256 fragments, and one that speaks
# version 1 only, from an address of its own. Node 1 is connected to and connects, comes down from
# what it proposed, and transfers 1 MiB in 256 fragments.

# shellcheck source=tests/lnet/standin.sh
. "$TREE/tests/lnet/standin.sh"

OLD_IP=10.98.0.55

# obey WORD...: what the old peer wants node 1 to do; 0, or an error.
obey() {
	local verb=$1 rc=0
	shift
	case $verb in
	forget) si lctl del_peer o2ib0 "$OLD_IP@o2ib" >/dev/null || true ;;
	*) si "$verb" "$OLD_IP@o2ib" "$@" >/dev/null || rc=1 ;;
	esac
	echo $rc
}

load_lnd timeout=$((20 * SLOW))
run si net add o2ib0 "if=$NETDEV" >/dev/null
sync_point up
if node_is 2; then
	run insmod "$KO/kor_evil.ko"
	run ip addr add "$OLD_IP/24" dev "$NETDEV"
	sync_point armed
	within 70 python3 "$TREE/tests/kernel/oldpeer.py" "$OLD_IP" "$PEER_IP" "$RUN" >"$RUN/oldpeer"
	touch "$RUN/oldpeer.over"
	sync_point over 90
	run rmmod kor_evil
	run ip addr del "$OLD_IP/24" dev "$NETDEV"
else
	sync_point armed
	asked=0
	until [ -e "$RUN/oldpeer.over" ] || [ -e "$RUN/failed.2" ]; do
		if [ -e "$RUN/go.$((asked + 1))" ]; then
			asked=$((asked + 1))
			# shellcheck disable=SC2046 # words
			obey $(cat "$RUN/go.$asked") >"$RUN/answer"
			mv "$RUN/answer" "$RUN/went.$asked"
		else
			nap 0.1
		fi
	done
	sync_point over 90
	ok "$asked wishes of the old peer"
fi
run si_clean
run si net del o2ib0 >/dev/null
unload_lnd
