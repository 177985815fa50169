# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Node 2 loses its power and starts again. To be sourced after lnet-lib.sh and lnet-checks.sh.

ping_within_three() {
	lnet_ping "$PEER_NID" || lnet_ping "$PEER_NID" || lnet_ping "$PEER_NID"
}

# lnet_reboot FIRST SECOND: node 1 with the first LND, node 2 with the second.
lnet_reboot() {
	if node_is 1; then lnet_load "$1"; else lnet_load "$2"; fi
	run net_add
	if node_is 2 && [ -e "$RUN/power-cut" ]; then
		selftest_load
		sync_point again 60
	else
		sync_point up
		! node_is 1 || run lnet_ping "$PEER_NID"
		sync_point pinged 60
		if node_is 2; then
			: >"$RUN/power-cut"
			power_cycle
		fi
		selftest_load
		# While it is away.
		! lnet_ping "$PEER_NID" || say 'node 2 was quick'
		sync_point again 120
	fi
	! node_is 1 || item '74 peer reboot: ping' ping_within_three
	sync_point first 120
	node_is 1 || item '74 peer reboot: ping back' ping_within_three
	sync_point second 120
	! node_is 1 || item '74 peer reboot: traffic' lst_test 20 brw read check=full size=64k
	sync_point traffic 120
	run net_del
	lnet_unload
	all_items_passed
}
