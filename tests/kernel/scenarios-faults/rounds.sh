# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 1200
# one node
# Two NIs start, connect, transfer and stop, again and again, and each of all the calls that they
# make to the RDMA device fails once; after each, a whole round works.

# shellcheck source=tests/kernel/hca-faults.sh
. "$TREE/tests/kernel/hca-faults.sh"

hca_faults_up
hca_round_calls
for ((k = 1; k <= CALLS; k++)); do
	hca_round_fails "$k"
done
say "$CALLS calls of a round: $TRIED faults, $SEEN failed"
hca_faults_down
