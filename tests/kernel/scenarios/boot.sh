# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 30
# kernels: um um-debug stock
# fast
# The machines themselves: two nodes boot, see each other and have an RDMA device.

sync_point network
run ping -c 3 -i 0.2 -W 2 "$PEER_IP"
run ping -c 1 -s 8000 -M "do" -W 2 "$PEER_IP"
run rdma link show rxe0/1
rdma link show rxe0/1 | grep -q 'state ACTIVE' || fail "rxe0 is not active"
expect retransmissions "$(retransmissions)" 0
sync_point pinged
run rxe_down
run_fails rdma link show rxe0/1
