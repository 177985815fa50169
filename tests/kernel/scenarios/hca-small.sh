# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 90
# kernels: um
# one node
# The LND over devices that are small: few SGEs (R4), short queues, few CQEs. All messages arrive,
# and the device has nothing to complain of.

# shellcheck source=tests/lnet/standin.sh
. "$TREE/tests/lnet/standin.sh"
# shellcheck source=tests/kernel/hca.sh
. "$TREE/tests/kernel/hca.sh"

# small LIMIT=VALUE: messages over such a device.
small() {
	say "a device with $1"
	hca_load "$1"
	hca_add 0 $HCA_A $HCA_B
	hca_nis
	run si ping $NID_B ni=$NID_A >/dev/null
	run si put $NID_B ni=$NID_A size=3000 ack=1 count=5 >/dev/null
	run si put $NID_B ni=$NID_A size=1048576 ack=1 count=5 >/dev/null
	run si put $NID_B ni=$NID_A size=1000000 off=100 soff=300 style=scatter sstyle=scatter \
		ack=1 count=5 >/dev/null
	run si get $NID_B ni=$NID_A size=1000000 off=100 soff=300 style=scatter sstyle=scatter \
		count=5 >/dev/null
	hca_right 0
	hca_down
	hca_empty 0
	hca_unload
	run ip link del hnet0
}

load_lnd
for limit in max_sge=4 max_sge=6 max_sge=7 max_wr=200 max_cqe=300; do
	small $limit
done
run si_clean
unload_lnd
