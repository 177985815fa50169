# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 120
# kernels: um um-debug stock
# one node
# Two NIs of one node over the RDMA device in memory: every kind of message arrives, both ways,
# over one device and from one to another; the device has nothing to complain of; nothing is left.

# shellcheck source=tests/lnet/standin.sh
. "$TREE/tests/lnet/standin.sh"
# shellcheck source=tests/kernel/hca.sh
. "$TREE/tests/kernel/hca.sh"

good() { run si "$@" >/dev/null; }

both_ways() {
	local from=$NID_A to=$NID_B
	for _ in 1 2; do
		good ping "$to" "ni=$from" count=5
		good put "$to" "ni=$from" size=0 size_max=20000 off_max=4095 soff=77 style=scatter \
			ack=1 count=100 conc=8
		good get "$to" "ni=$from" size=0 size_max=20000 off_max=4095 soff=77 style=scatter \
			count=100 conc=8
		good put "$to" "ni=$from" size=1048576 off=4095 soff=4095 ack=1 count=5
		good get "$to" "ni=$from" size=1048576 off=4095 soff=4095 count=5
		from=$NID_B to=$NID_A
	done
}

# Each DONE follows its WRITEs, each message is one SEND, and each sink is registered once.
adds_up() {
	local sinks
	sinks=$(($(lnd_sent PUT_ACK) + $(lnd_sent GET_REQ)))
	expect "$1: registrations" "$2" "$sinks"
	expect "$1: invalidations" "$3" "$sinks"
}

hca_load
hca_add 0 $HCA_A $HCA_B
load_lnd
say 'one device'
hca_nis
both_ways
adds_up 'one device' "$(hca_count 0 wr_reg)" "$(hca_count 0 wr_inv)"
expect 'bytes of SENDs' "$(hca_count 0 bytes_send)" \
	"$(awk '$1 == "sent" && $2 !~ /^CONN/ { n += $4 } END { print n }' "$STATS")"
hca_right 0
run si_clean
hca_down
hca_empty 0

say 'two devices'
run ip address del $HCA_B/24 dev hnet0
hca_add 1 $HCA_B
hca_nis
expect 'devices' "$(lnd_live devs)" 2
both_ways
expect_at_least 'bytes written by hca0' "$(hca_count 0 bytes_write)" 20000000
expect_at_least 'bytes written by hca1' "$(hca_count 1 bytes_write)" 10000000
hca_right 0
hca_right 1
run si_clean
hca_down
hca_empty 0
hca_empty 1

say 'the interface goes, and the device with it'
run ip link del hnet1
wait_for 5 test ! -e /sys/class/infiniband/hca1
unload_lnd
hca_unload
