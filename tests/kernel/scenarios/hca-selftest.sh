# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 120
# kernels: um um-debug
# one node
# The RDMA device in memory itself: a program of verbs alone provokes each of its checks, and each
# counter of a wrong use moves; calls fail, sleep and are counted as commanded; the device goes
# with a connection open.

# shellcheck source=tests/kernel/hca.sh
. "$TREE/tests/kernel/hca.sh"

all_wrong() {
	local name
	for name in $HCA_WRONG; do
		expect_at_least "$name" "$(hca_count 0 "$name")" 1
	done
}

# checks FAULT...: the program, with this command to the device, must end as it does without one.
checks() {
	[ $# -eq 0 ] || hca_cmd 0 "$@"
	run insmod "$KO/kor_hca_test.ko"
	run rmmod kor_hca_test
	hca_empty 0
	hca_cmd 0 clear faults
}

# What does not come is not waited for as long as elsewhere.
run_fails_fast() {
	run_fails insmod "$KO/kor_hca_test.ko" wait_ms=$((300 * SLOW)) 2>/dev/null
	hca_empty 0
}

# breaks FAULT...: with it, the program finds that something is wrong.
breaks() {
	hca_cmd 0 "$@"
	run_fails_fast
	hca_cmd 0 clear faults
}

commands() {
	local op
	for op in alloc_pd create_cq create_qp get_dma_mr modify_qp alloc_mr map_mr_sg post_send \
		post_recv connect accept listen; do
		hca_cmd 0 fail $op 12 1
		run_fails_fast
		expect "failed $op" "$(hca_failed 0 $op)" 1
	done
	hca_cmd 0 clear faults
	breaks complete send 13 1
	breaks complete recv 10 1
	breaks complete reg 4 1
	run_fails hca_refuses 0 fail nothing 12 1
	run_fails hca_refuses 0 slow post_send 5
	run_fails hca_refuses 0 complete send 0 1
}
hca_refuses() { echo "${*:2}" 2>/dev/null >$HCA_DEBUG/hca0/cmd; }

# Both ends are open while the device goes.
removal() {
	insmod "$KO/kor_hca_test.ko" removal=1 &
	local pid=$!
	wait_for 5 has_open_qps
	hca_cmd 0 vanish now
	wait $pid || fail 'the end of the device was not seen'
	run rmmod kor_hca_test
	wait_for 5 test ! -e /sys/class/infiniband/hca0
}
has_open_qps() { [ "$(grep -c 'state 3' $HCA_DEBUG/hca0/qps)" = 2 ]; }

hca_load
hca_add 0 $HCA_A $HCA_B
checks
all_wrong
say 'late completions'
# Below what the test gives a completion that must not be told of (t_told), on any kernel.
checks late 3000
say 'slow calls'
before=$SECONDS
checks slow destroy_qp 20
expect_at_least 'seconds of slow calls' $((SECONDS - before)) 1
say 'commands'
commands
checks
say 'removal'
removal
hca_unload
