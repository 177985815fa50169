# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Init of a node: sets the machine up, runs the scenario, checks the kernel, switches off.

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HOME=/root LC_ALL=C.UTF-8
here=$(dirname "${BASH_SOURCE[0]}")

# By busybox, one small static program: on the debug kernel each other one takes a good part of
# a second to start.
mount_all() {
	# A clone under /tmp must stay in sight.
	case $TREE:$RUN:$KO in
	/tmp/* | *:/tmp/*) export TMPDIR=/run TMPFS='/run /var/log' ;;
	*) export TMPFS='/tmp /run /var/log' ;;
	esac
	# Not by busybox: it starts itself from /proc/self/exe.
	mount -t proc proc /proc
	# The kernel has mounted /dev. What the shell has built in is not started.
	/bin/busybox sh -c '
		alias mount="busybox mount"
		mount -t sysfs sysfs /sys
		mkdir -p /dev/pts /dev/shm
		mount -t tmpfs tmpfs /dev/shm
		for dir in $TMPFS; do mount -t tmpfs tmpfs $dir; done
		mount -t debugfs debugfs /sys/kernel/debug
		ln -sf /proc/self/fd /dev/fd
	'
}

set_sysctl() { [ ! -e "/proc/sys/$1" ] || echo "$2" >"/proc/sys/$1"; }

set_kernel() {
	set_sysctl kernel/panic_on_oops 1
	set_sysctl kernel/hung_task_timeout_secs 30
	set_sysctl kernel/printk "7 4 1 7"
	[ "$KERNEL" != um-debug ] || set_sysctl kernel/hung_task_timeout_secs 60
	set_sysctl net/core/rmem_max 33554432
	set_sysctl net/core/wmem_max 33554432
	set_sysctl kernel/hostname "node$NODE"
}

# On UML these are in the kernel; Debian's kernel has them as modules.
load_rdma() {
	[ "$KERNEL" = stock ] || return 0
	local module
	# sunrpc is for real LNet.
	for module in rdma_cm rdma_rxe ${LNET:+sunrpc}; do
		modprobe "$module" || fail "cannot load $module"
	done
}

network_up() {
	[ -e "/sys/class/net/$NETDEV" ] || fail "no network interface $NETDEV"
	ip -batch - <<-END || fail "cannot bring $NETDEV up"
		link set lo up
		link set $NETDEV mtu 9000
		link set $NETDEV up
		address add $MY_IP/24 dev $NETDEV
	END
	[ "${NO_RXE:-}" ] || rxe_up || fail "cannot make rxe0"
}

machine_up() {
	load_rdma
	network_up
}

# kmemleak reports only what is older than five seconds and unreferenced in two scans.
check_leaks() {
	local leaks=/sys/kernel/debug/kmemleak
	[ -e $leaks ] || { [ "$KERNEL" != um-debug ] || fail "kmemleak is not there"; return; }
	sleep 6
	for _ in 1 2; do
		echo scan >$leaks || fail "kmemleak does not scan: it is off (kernel log: why)"
	done
	cat $leaks >"$RUN/kmemleak.$NODE" || fail "cannot read kmemleak"
	# UML's own start, in swapper's name, leaves two strings behind.
	awk -v RS='unreferenced object' 'NR > 1 && !/comm "swapper\/0"/ { print RS $0 }' \
		"$RUN/kmemleak.$NODE" >"$RUN/leaks.$NODE" || fail "cannot judge $RUN/kmemleak.$NODE"
	[ ! -s "$RUN/leaks.$NODE" ] ||
		fail "kmemleak: $(grep -c '^unreferenced' "$RUN/leaks.$NODE") objects," \
			"see $RUN/leaks.$NODE"
}

check_kernel() {
	if [ "$KERNEL" = um-debug ]; then
		grep -q 'debug_locks: *1' /proc/lockdep_stats ||
			fail "lockdep is off at the end of the run"
	fi
	check_leaks
}

scenario() {
	# shellcheck disable=SC1090
	. "$SCENARIO"
	# Neither switches off before the other is through.
	[ -e "$RUN/result.$NODE" ] || sync_point end
}

# finish WHY: leave the result, ok unless a part said otherwise, and switch off.
finish() {
	dmesg >"$RUN/dmesg.$NODE" 2>/dev/null
	[ -e "$RUN/result.$NODE" ] || echo "$1" >"$RUN/result.$NODE"
	[ "$(cat "$RUN/result.$NODE")" = ok ] || touch "$RUN/failed.$NODE"
	sync
	/bin/busybox poweroff -f
	sleep 60
}

# show_blocked: who hangs where, on the console. The runner takes none of it for a report.
show_blocked() {
	echo "kor-test: late, blocked tasks of node $NODE:" >/dev/kmsg
	echo w >/proc/sysrq-trigger
	echo "kor-test: end of blocked tasks" >/dev/kmsg
}

# When the host is about to end a node that hangs.
watch_time() {
	local margin=5
	[ "$KERNEL" != stock ] || margin=40
	sleep $((TIMEOUT > margin + 2 ? TIMEOUT - margin : 2))
	show_blocked
}

# Each part runs in a process of its own: fail ends that, init goes on.
if [ "${1:-}" = part ]; then
	. "$here/lib.sh"
	"$2"
	exit
fi

mount_all
set_kernel
echo "kor-test: init of node $NODE" >/dev/kmsg
watch_time &
for part in machine_up scenario check_kernel; do
	bash "${BASH_SOURCE[0]}" part $part
	status=$?
	[ $status -eq 0 ] || finish "status $status in $part"
done
finish ok
