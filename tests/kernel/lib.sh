# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# What a scenario can use. Sourced in each of the two nodes before the scenario's file.
#
# NODE (1 or 2, or 3 where a third one is on a link), RUN (directory shared by all nodes and the
# host), KO (the modules), KDIR (the kernel's tree), KERNEL (um, um-debug or stock) and LNET (real
# LNet's tree or empty) are set; the network and rxe0 are up. A scenario passes when all nodes reach its end.

[ "$NODE" -eq 1 ] && PEER=2 || PEER=$((NODE == 2 ? 1 : 2))
MY_IP=10.98.0.$NODE
PEER_IP=10.98.0.$PEER
# shellcheck disable=SC2034 # for the scenarios
MY_NID=$MY_IP@o2ib
# shellcheck disable=SC2034
PEER_NID=$PEER_IP@o2ib
[ -e /sys/class/net/vec0 ] && NETDEV=vec0 || NETDEV=eth0
RXE_TROUBLE='duplicate_request out_of_seq_request rcvd_seq_err retry_exceeded_err'
RXE_TROUBLE+=' completer_retry_err retry_rnr_exceeded_err'
STATS=/sys/kernel/debug/ko2iblnd/stats

# Time limits are for the plain UML kernel; SLOW is how much longer others may take.
case $KERNEL in
um) SLOW=1 ;;
*) SLOW=8 ;;
esac

exec {NAP_FD}<> <(:)
# nap SECONDS: sleep without starting a process.
nap() { read -rt "$1" -u "$NAP_FD" || true; }

node_is() { [ "$NODE" -eq "$1" ]; }

say() { echo "node $NODE: $*"; }

ok() { say "ok: $*"; }

# fail MESSAGE: end this scenario on both nodes.
fail() {
	say "FAIL: $*"
	[ -e "$RUN/result.$NODE" ] || echo "$*" >"$RUN/result.$NODE"
	touch "$RUN/failed.$NODE"
	[ "$BASHPID" -eq $$ ] || kill -TERM $$	# out of a subshell, too
	exit 1
}

# run COMMAND...: run it and fail unless it succeeds.
run() {
	local rc=0
	"$@" || rc=$?
	[ "$rc" -eq 0 ] || fail "status $rc from: $*"
}

# run_fails COMMAND...: run it and fail if it succeeds.
run_fails() {
	if "$@"; then
		fail "succeeded, but must not: $*"
	fi
}

# within SECONDS COMMAND...: run it; fail when it fails or takes longer (times SLOW).
within() {
	local limit=$1 rc=0
	shift
	timeout -k 5 $((limit * SLOW)) "$@" || rc=$?
	[ "$rc" -ne 124 ] && [ "$rc" -ne 137 ] || fail "not done in $((limit * SLOW)) s: $*"
	[ "$rc" -eq 0 ] || fail "status $rc from: $*"
}

# wait_for SECONDS COMMAND...: until the command (a function, too) succeeds.
wait_for() {
	local end=$((SECONDS + $1 * SLOW))
	shift
	until "$@"; do
		[ "$SECONDS" -lt "$end" ] || fail "did not come true: $*"
		nap 0.1
	done
}

# expect WHAT GOT WANT
expect() { [ "$2" = "$3" ] || fail "$1 is $2, must be $3"; }

# expect_at_least WHAT GOT MINIMUM
expect_at_least() { [ "$2" -ge "$3" ] || fail "$1 is $2, must be at least $3"; }

# sync_point NAME [SECONDS]: wait until all nodes are here. Each name once in a scenario.
sync_point() {
	local name=$1 end=$((SECONDS + ${2:-30} * SLOW)) node
	: >"$RUN/sync.$name.$NODE"
	for ((node = 1; node <= NODES; node++)); do
		until [ -e "$RUN/sync.$name.$node" ]; do
			[ ! -e "$RUN/failed.$node" ] || fail 'the other node failed'
			[ "$SECONDS" -lt "$end" ] || fail "the other node did not come to $name"
			nap 0.05
		done
	done
}

# put NAME VALUE / get_peer NAME: hand a value to the other node, around a sync_point.
put() { printf '%s\n' "$2" >"$RUN/value.$1.$NODE"; }
get_peer() { cat "$RUN/value.$1.$PEER"; }

# allow_report REGEX: a kernel message that the scenario provokes and that must not fail it.
# An empty expression would allow all.
allow_report() {
	[ -n "$1" ] || fail 'allow_report without an expression'
	printf '%s\n' "$1" >>"$RUN/allow.$NODE"
}

# keep_stats: leave the LND's counters for the judge; after the traffic, before the module goes.
keep_stats() { cat "$STATS" >"$RUN/stats.$NODE" || fail "no $STATS"; }

# row KIND SIZE MESSAGES MIB_PER_S P50_US P99_US ERRORS: a line of the demo's table.
row() { printf '%s\n' "$*" >>"$RUN/rows.$NODE"; }

# keep_rxe: leave rxe's counters of trouble for the demo's table.
keep_rxe() {
	local name
	for name in $RXE_TROUBLE; do
		echo "$name $(rxe_counter "$name")"
	done >"$RUN/rxe.$NODE"
}

# rxe_counter NAME: a hardware counter of rxe0 (retry_exceeded_err, completer_retry_err, ...).
rxe_counter() {
	rdma statistic show link rxe0/1 | tr -s ' ' '\n' |
		awk -v name="$1" 'found { print; exit } $0 == name { found = 1 }'
}

# retransmissions: the sum of rxe's counters that show that packets were sent twice.
retransmissions() {
	local name sum=0
	for name in $RXE_TROUBLE; do
		sum=$((sum + $(rxe_counter "$name")))
	done
	echo "$sum"
}

# --- the modules ------------------------------------------------------------------------

# load_standin [PARAMETER=VALUE...]: the LNet stand-in alone.
# shellcheck disable=SC2120 # the scenarios give some
load_standin() { run insmod "$KO/lnet_standin.ko" "$@"; }

# load_lnd [PARAMETER=VALUE...]: the stand-in, if it is not there, and the LND.
load_lnd() {
	[ -d /sys/module/lnet_standin ] || load_standin
	run insmod "$KO/ko2iblnd.ko" "$@"
}

# unload_lnd: both modules; at once, and with nothing left behind.
unload_lnd() {
	within 5 rmmod ko2iblnd
	within 5 rmmod lnet_standin
}

# lnd_counter NAME / lnd_live NAME / lnd_sent TYPE / lnd_received TYPE: from debugfs' stats.
lnd_counter() { awk -v n="$1" '$1 == "counter" && $2 == n { print $3 }' "$STATS"; }
lnd_live() { awk -v n="$1" '$1 == "live" && $2 == n { print $3 }' "$STATS"; }
lnd_sent() { awk -v n="$1" '$1 == "sent" && $2 == n { print $3 }' "$STATS"; }
lnd_received() { awk -v n="$1" '$1 == "received" && $2 == n { print $3 }' "$STATS"; }

# --- the machine ------------------------------------------------------------------------

rxe_up() { rdma link add rxe0 type rxe netdev "$NETDEV"; }
rxe_down() { rdma link delete rxe0; }

# bond_up: with "# two legs", bond1 over vec0 (active) and vec1 has the node's address; rxe0 is gone.
# A leg takes the bond's MTU, but UML's interfaces never a larger one than they have.
leg_is_active() { [ "$(cat /sys/class/net/bond1/bonding/active_slave)" = "$1" ]; }
bond_up() {
	run rxe_down
	ip -batch - <<-END || fail 'cannot make the bond'
		address flush dev vec0
		link set vec0 down
		link add bond1 mtu 9000 type bond mode active-backup miimon 50 fail_over_mac active
		link set vec0 master bond1
		link set vec1 master bond1
		link set bond1 up
		address add $MY_IP/24 dev bond1
	END
	wait_for 5 leg_is_active vec0
}

# die_now: this node vanishes without a word, as in a power cut. The other goes on alone: it
# must not sync with this one any more.
die_now() {
	say "dies now, as the scenario wants"
	echo ok >"$RUN/result.$NODE"
	dmesg >"$RUN/dmesg.$NODE"
	sync
	/bin/busybox poweroff -f
}

# power_cycle: this node loses its power, and starts again: the scenario runs anew from its first
# line, with the files in RUN as they are. A mark there must tell it where to go on.
power_cycle() {
	say "loses its power, as the scenario wants"
	dmesg >"$RUN/dmesg.$NODE.before"
	touch "$RUN/again.$NODE"
	sync
	/bin/busybox poweroff -f
	sleep 60
}
