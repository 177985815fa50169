# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Routing: node 1 on o2ib, node 2 a router with o2ib and tcp, node 3 on tcp. To be sourced after
# lnet-lib.sh and lnet-checks.sh.

ROUTER_NID=10.98.0.2@o2ib
FAR_IP=10.99.0

tcp_add() { bounded 30 lnetctl net add --net tcp --if "$1"; }

# UML's interfaces do not say that they are up, only that they may be. Then the C driver has its NI
# down and says so to all: a router that has heard it forwards nothing to that node.
link_says_up() { ip link set "$NETDEV" state UP || fail 'state of the interface'; }

far_link_up() {
	ip link set "$1" mtu 9000 up && ip addr add $FAR_IP.2/24 dev "$1" ||
		fail 'second interface'
}

router_up() {
	run insmod "$(lnet_file ksocklnd.ko)"
	run net_add
	run tcp_add "$1"
	run lnetctl set routing 1
	wait_for 30 forwards
}

# forwards: LNet turns to forwarding some seconds later, and says so; until then it tells whoever
# asks that it is no router.
forwards() {
	! dmesg | grep -q 'forwarding will be enabled' || dmesg | grep -q 'forwarding enabled'
}

far_node_up() {
	rxe_down
	ip addr flush dev "$NETDEV" && ip addr add $FAR_IP.3/24 dev "$NETDEV" || fail address
	run insmod "$(lnet_file libcfs.ko)"
	run insmod "$(lnet_file lnet.ko)"
	quick_routers
	run insmod "$(lnet_file ksocklnd.ko)"
	run lnetctl lnet configure
	run tcp_add "$NETDEV"
	run lnetctl route add --net o2ib --gateway $FAR_IP.2@tcp
}

# A route is used once the router has answered.
route_is_up() { lnetctl route show -v | grep -q 'state: up'; }

peer_is() { lnetctl peer show -v --nid "$2" | grep -q "state: $1\$"; }

# quick_routers: LNet asks routers for life signs every two seconds, and a router forwards messages
# after as long as it may take all others to hear of it.
quick_routers() {
	echo 2 >/sys/module/lnet/parameters/alive_router_check_interval
	echo 3 >/sys/module/lnet/parameters/router_ping_timeout
}

# lnet_router FIRST SECOND: node 1 with the first LND, the router with the second.
lnet_router() {
	local kind
	link_says_up
	case $NODE in
	1)
		lnet_load "$1"
		quick_routers
		run net_add
		run lnetctl route add --net tcp --gateway $ROUTER_NID ;;
	2)
		far_link_up "${NETDEV%0}1"
		lnet_load "$2"
		quick_routers
		router_up "${NETDEV%0}1" ;;
	3) far_node_up ;;
	esac
	selftest_load
	sync_point up 60
	# What was asked before the router forwarded has been answered by then.
	nap 3
	! node_is 3 || wait_for 30 route_is_up
	sync_point routes 60
	if node_is 1; then
		PEER_NID=$FAR_IP.3@tcp
		item '67 router: route' soon 30 route_is_up
		item '67 router: ping' lnet_ping "$PEER_NID"
		for kind in read write; do
			item "67 router: $kind 1M" lst_test $((24 / SLOW)) brw $kind check=full size=1M
		done
	fi
	sync_point routed 400
	# Node 1 vanishes with messages on the way to it.
	node_is 3 || echo 10 >"$P/timeout"
	! node_is 1 || run ip link set "$NETDEV" down
	sync_point gone
	case $NODE in
	2) item '75 notify' soon 60 peer_is down 10.98.0.1@o2ib ;;
	3)
		while [ ! -e "$RUN/sync.noticed.2" ]; do
			bounded 60 lnetctl ping --timeout 5 10.98.0.1@o2ib
		done >/dev/null 2>&1 ;;
	esac
	sync_point noticed 120
	! node_is 2 || run lnetctl set routing 0
	if node_is 3; then
		rmmod lnet_selftest
		run bounded 60 lnetctl lnet unconfigure
	else
		run net_del
		! node_is 2 || run bounded 60 lnetctl net del --net tcp
		lnet_unload
	fi
	sync_point unloaded 200
	all_items_passed
}
