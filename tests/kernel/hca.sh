# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# The RDMA device in memory (tests/hca), for scenarios of one node: Documentation/testing.md.

HCA_DEBUG=/sys/kernel/debug/kor_hca
# Both ends of all connections; HCA_B is the address that is asked.
HCA_A=10.97.0.1 HCA_B=10.97.0.2
NID_A=$HCA_A@o2ib NID_B=$HCA_B@o2ib
HCA_WRONG='bad_key bad_pd bad_state bad_bounds bad_access bad_address bad_reg bad_inv bad_opcode'
HCA_WRONG+=' bad_sge bad_inline bad_qp_state sq_full rq_full no_recv recv_short cq_overflow'
HCA_WRONG+=' map_while_valid'

# hca_load [LIMIT=VALUE...]: the module; its limits are those of the devices made from now on.
# shellcheck disable=SC2120 # the scenarios give some
hca_load() { run insmod "$KO/kor_hca.ko" "$@"; }

# hca_unload: with all devices that are left.
hca_unload() { within 5 rmmod kor_hca; }

# hca_add NUMBER ADDRESS...: hcaNUMBER on an interface of its own, hnetNUMBER, with these addresses.
hca_add() {
	local n=$1 address i=0
	shift
	run ip link add "hnet$n" type dummy
	run ip link set "hnet$n" mtu 9000 up
	for address; do
		run ip address add "$address/24" dev "hnet$n" label "hnet$n$([ $i -eq 0 ] || echo ":$i")"
		i=$((i + 1))
	done
	run rdma link add "hca$n" type kor_hca netdev "hnet$n"
}

# hca_cmd NUMBER WORD...: a command to the device.
hca_cmd() {
	local n=$1
	shift
	echo "$*" >$HCA_DEBUG/"hca$n"/cmd || fail "hca$n does not take: $*"
}

# hca_count NUMBER NAME / hca_calls NUMBER OP / hca_failed NUMBER OP
hca_count() { awk -v n="$2" '$1 == n { print $2 }' $HCA_DEBUG/"hca$1"/counters; }
hca_calls() { awk -v n="$2" '$1 == n { print $2 }' $HCA_DEBUG/"hca$1"/calls; }
hca_failed() { awk -v n="$2" '$1 == n { print $3 }' $HCA_DEBUG/"hca$1"/calls; }

# hca_right NUMBER: the device had nothing to complain of.
hca_right() {
	awk -v names=" $HCA_WRONG " 'index(names, " " $1 " ") && $2 { print; bad = 1 } END { exit bad }' \
		$HCA_DEBUG/"hca$1"/counters || fail "hca$1 was used wrongly, see above"
}

# hca_empty NUMBER: no object is left on the device.
hca_empty() {
	awk '/^live_/ && $2 { print; bad = 1 } END { exit bad }' $HCA_DEBUG/"hca$1"/counters ||
		fail "hca$1 has something left, see above"
}

# nothing_lives: of the LND's own.
nothing_lives() { [ -z "$(awk '$1 == "live" && $3 != 0' "$STATS")" ]; }

# hca_nis: an NI on each of the two addresses: two interfaces where there is hca1, else one.
# shellcheck disable=SC2120
hca_nis() {
	local second=hnet1
	[ -e /sys/class/net/hnet1 ] || second=hnet0:1
	run si net add o2ib0 if=hnet0 "$@" >/dev/null
	run si net add o2ib0 if=$second "$@" >/dev/null
}

# hca_down: what hca_nis made goes, and nothing is left.
hca_down() {
	run si net del o2ib0 "nid=$NID_B" >/dev/null
	run si net del o2ib0 "nid=$NID_A" >/dev/null
	nothing_lives || { grep ^live "$STATS"; fail 'the LND has something left'; }
}
