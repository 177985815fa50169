# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 120
# kernels: um um-debug stock
# An NI is deleted: after traffic, with traffic running here, with traffic coming in, and after
# the peer died. Each time the deletion ends within 1.25 times the LND timeout, rmmod at once,
# and nothing is left. While there is an NI, rmmod is refused.

# shellcheck source=tests/lnet/standin.sh
. "$TREE/tests/lnet/standin.sh"

TIMEOUT_S=$((10 * SLOW))
LIMIT=$((TIMEOUT_S * 5 / 4 + 1))

# live NAME...: what is alive, of everything that must not be.
all_gone() {
	[ -z "$(awk '$1 == "live" && $3 != 0' "$STATS")" ]
}

up() {
	load_lnd timeout=$TIMEOUT_S
	run si net add o2ib0 "if=$NETDEV"
}

down() {
	local started=$SECONDS
	run_fails rmmod ko2iblnd
	run si net del o2ib0
	[ $((SECONDS - started)) -le $LIMIT ] ||
		fail "net del took $((SECONDS - started)) s, limit $LIMIT s"
	all_gone || { grep ^live "$STATS"; fail 'something is left'; }
	within 5 rmmod ko2iblnd
}

traffic() { si put "$PEER_NID" size="$1" conc=8 count=1000000 max_ms=30000 ack=1; }

say 'after traffic'
up
sync_point up-1
node_is 1 && run si put "$PEER_NID" size=65536 count=20 conc=4 ack=1
sync_point done-1
down

say 'with traffic running, from both ends'
up
sync_point up-2
for size in 1000 100000; do
	traffic $size >"$RUN/traffic.$NODE.$size" 2>&1 &
done
nap 2
sync_point running
# One end goes while the other goes on; then the other.
if node_is 1; then
	down
	up
fi
sync_point first-down 60
if node_is 2; then
	down
	up
fi
sync_point second-down 60
wait
down
sync_point clean
run si_clean

say 'after the peer died'
up
sync_point up-3
if node_is 2; then
	nap 1
	die_now
fi
# shellcheck disable=SC2034 # for sync_point
NODES=1	# the other one is gone
traffic 100000 >"$RUN/traffic.$NODE.dead" 2>&1 &
nap 3
down
wait
run si_clean
within 5 rmmod lnet_standin
