# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# An NI on a bond of two interfaces. To be sourced after lnet-lib.sh and lnet-checks.sh.

LEGS=("${NETDEV%0}0" "${NETDEV%0}1")

# bond_up: the address and the RDMA device move to a bond of both interfaces.
bond_up() {
	local leg
	[ "$KERNEL" != stock ] || modprobe bonding || return
	rxe_down
	ip addr flush dev "$NETDEV"
	# Frames that come in on the other leg count, too: the nodes do not change legs at a time.
	# The MTU comes first: UML's interfaces have theirs from the start, and no other.
	ip link add bond9 mtu 9000 type bond mode active-backup miimon 50 all_slaves_active 1 ||
		return
	for leg in "${LEGS[@]}"; do
		ip link set "$leg" down && ip link set "$leg" master bond9 || return
	done
	ip link set bond9 up && ip addr add "$MY_IP/24" dev bond9 || return
	NETDEV=bond9
	rxe_up
}

active_leg() { cat /sys/class/net/bond9/bonding/active_slave; }

leg_is() { [ "$(active_leg)" = "$1" ]; }

ping_within_three() {
	lnet_ping "$PEER_NID" || lnet_ping "$PEER_NID" || lnet_ping "$PEER_NID"
}

# change_leg FROM TO: both nodes lose a leg and go on with the other one, on the connection that
# they have.
change_leg() {
	local from=${LEGS[$1]} to=${LEGS[$2]} name=$1-$2
	sync_point "change-$name" 60
	ip link set "$from" down
	item "bonding: leg $1 to leg $2" soon 10 leg_is "$to"
	sync_point "changed-$name" 60
	if node_is 1; then
		item "bonding: ping on leg $2" ping_within_three
		item "bonding: status on leg $2" link_is 'up 0'
	fi
	sync_point "pinged-$name" 100
	ip link set "$from" up
	nap 1
}

status_follows() {
	ip link set "${LEGS[0]}" down
	soon 10 leg_is "${LEGS[1]}" || return
	link_is 'up 0' || { echo "one leg down: $(link_status)"; return 1; }
	ip link set "${LEGS[1]}" down
	soon 10 link_is 'down 1' || return
	ip link set "${LEGS[0]}" up
	soon 10 link_is 'up 0' || return
	ip link set "${LEGS[1]}" up
	ping_within_three
}

# lnet_bond FIRST SECOND: node 1 with the first LND, node 2 with the second.
lnet_bond() {
	bond_up || fail 'bond9 with an RDMA device'
	sync_point bonded
	if node_is 1; then lnet_load "$1" dev_failover=1; else lnet_load "$2" dev_failover=1; fi
	item 'bonding: NI on the bond' net_add
	sync_point up
	if node_is 1; then
		item 'bonding: ping' lnet_ping "$PEER_NID"
	fi
	sync_point pinged 60
	change_leg 0 1
	change_leg 1 0
	if node_is 1; then
		# rxe gives up a queue pair, and that of the CM for good, when a packet cannot be sent.
		skip 'bonding: failover under load' 'rxe sends no CM messages after a failed one'
		# The CM finds the device of the active leg, but rxe takes packets of its own
		# interface only, and the address is on the bond.
		skip 'bonding: a device on each leg' 'rxe on a leg gets no packets for the bond'
	fi
	sync_point changed 60
	! node_is 1 || item 'bonding: status follows' status_follows
	sync_point followed 60
	lnet_leave
	rxe_down
	all_items_passed
}
