# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 120
# Needs modules built with KOR_DMA_CHECK=1. The tests of the rooms kx, rdma and lnet, which the module
# runs in the kernel when their files are read. What they make on a device must be gone afterwards,
# or the device could not be removed.

TESTS=/sys/kernel/debug/ko2iblnd_selftest
KNOBS=/sys/kernel/debug/ko2iblnd_dma_check

# room NAME MINIMUM: all its tests pass, and there are so many at least.
room() {
	local file=$RUN/ktap.$1.$NODE
	cat "$TESTS/$1" >"$file" || fail "no tests of $1"
	sed 's/^/  /' "$file"
	! grep -q '^not ok ' "$file" || fail "tests of $1 fail"
	expect "plan of $1" "$(sed -n 's/^1\.\.//p' "$file")" "$(grep -c '^ok ' "$file")"
	expect_at_least "tests of $1" "$(grep -c '^ok ' "$file")" "$2"
}

# A second device, which has no address.
run ip link add second0 type dummy
run ip link set second0 up
run rdma link add rxe1 type rxe netdev second0
load_lnd
room kx 10
room lnet 4
room rdma 13
expect 'mappings that are left' "$(cat $KNOBS/live)" 0
within 10 rdma link delete rxe1
within 10 rdma link delete rxe0
unload_lnd
