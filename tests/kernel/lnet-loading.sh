# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# How the LND is found and loaded on an installed node: by LNet's own request, by the probe script
# of the OPA configuration, with LNet's own module parameters. To be sourced after lnet-lib.sh and
# lnet-checks.sh. Node 1 is an installed node; on node 2 the modules are loaded by file.

MODULES=/lib/modules/$(uname -r)
LUSTRE_MODULES='libcfs lnet ksocklnd ko2iblnd lnet_selftest'

# installed_node: modules and configuration files where a package puts them; seen by this node alone.
# On Debian's kernel the whole root is this node's own.
installed_node() {
	local name
	if [ "$KERNEL" != stock ]; then
		mount -t tmpfs tmpfs /lib/modules
		mount -t tmpfs tmpfs /etc/depmod.d
		mount -t tmpfs tmpfs /etc/modprobe.d
		mkdir -p /run/sbin/upper /run/sbin/work "$MODULES"
		mount -t overlay overlay \
			-o lowerdir=/usr/sbin,upperdir=/run/sbin/upper,workdir=/run/sbin/work /usr/sbin
		touch "$MODULES"/modules.{order,builtin,builtin.modinfo}
	fi
	mkdir -p "$MODULES/extra/lustre"
	for name in $LUSTRE_MODULES; do
		cp "$(lnet_file "$name.ko")" "$MODULES/extra/lustre/"
	done
	depmod
	# What scripts/install-module reads of a kernel tree.
	mkdir -p /run/kdir/include/config
	uname -r >/run/kdir/include/config/kernel.release
}

# opa_files: the C driver's package has these, ours does not replace them.
opa_files() {
	cp "$(find "$LNET" -name ko2iblnd.conf | head -n 1)" /etc/modprobe.d/ &&
		install -m 755 "$(find "$LNET" -name ko2iblnd-probe | head -n 1)" /usr/sbin/
}

# unload_all: what modprobe loaded.
unload_all() {
	local name
	bounded 60 lnetctl lnet unconfigure >/dev/null 2>&1
	for name in ko2iblnd lnet libcfs; do
		[ ! -d /sys/module/$name ] || rmmod $name || return
	done
}

# loaded WHOSE: which LND is there.
loaded() {
	[ -d "$P" ] || { echo 'none is loaded'; return 1; }
	case $1 in
	ours) [ -e "$STATS" ] || { echo "the C driver is loaded"; return 1; } ;;
	c) [ ! -e "$STATS" ] || { echo "ours is loaded"; return 1; } ;;
	esac
}

# autoloaded WHOSE: LNet asks for the module when the first o2ib NI is made.
autoloaded() {
	local rc=0
	modprobe lnet && lnetctl lnet configure && [ ! -d "$P" ] && net_add && loaded "$1" &&
		lnet_ping "$PEER_NID" || rc=1
	net_del
	unload_all && return $rc
}

installs() {
	INSTALL_MOD_PATH=/ "$TREE/scripts/install-module" install /run/kdir "$KO/ko2iblnd.ko" && autoloaded ours
}

uninstalls() {
	INSTALL_MOD_PATH=/ "$TREE/scripts/install-module" uninstall /run/kdir && autoloaded c
}

probe_shown() {
	modprobe -n -v ko2iblnd | tee "$RUN/probe.$NODE"
	grep -q '^install .*ko2iblnd-probe' "$RUN/probe.$NODE"
}

OPA='peer_credits=32 peer_credits_hiw=16 credits=1024 concurrent_sends=64 ntx=2048
map_on_demand=256 fmr_pool_size=2048 fmr_flush_trigger=512 fmr_cache=1 conns_per_peer=4'

# opa_parameters WHOSE: in force.
opa_parameters() {
	local pair
	loaded "$1" || return
	for pair in $OPA; do
		is "${pair%=*}" "$(cat "$P/${pair%=*}")" "${pair#*=}" || return
	done
}

opa_options() {
	local rc=0
	modprobe --ignore-install ko2iblnd-opa && opa_parameters "$1" || rc=1
	unload_all && return $rc
}

# With a device that is called as OPA's are, LNet's request ends with OPA's options; without one,
# with the defaults.
opa_probe() {
	local rc=0
	rdma dev set rxe0 name hfi1_0 && modprobe lnet && lnetctl lnet configure && net_add &&
		opa_parameters "$1" && shows peer_credits 32 peercredits_hiw 16 credits 1024 \
		concurrent_sends 64 ntx 2048 fmr_pool_size 2048 conns_per_peer 4 &&
		lnet_ping "$PEER_NID" || rc=1
	net_del
	rdma dev set hfi1_0 name rxe0 || rc=1
	unload_all && return $rc
}

plain_probe() {
	local rc=0
	modprobe ko2iblnd && loaded "$1" && is peer_credits "$(cat "$P/peer_credits")" 8 || rc=1
	unload_all && return $rc
}

# The NI is in LNet's own module parameter, and has the LND's defaults.
parameter_config() {
	local rc=0
	modprobe lnet networks="o2ib0($NETDEV)" && bounded 30 lnetctl lnet configure --all &&
		loaded "$1" && lctl list_nids | grep -qx "$MY_NID" && defaults_shown &&
		lnet_ping "$PEER_NID" || rc=1
	unload_all && return $rc
}

# Not by "ip netns exec", which also mounts a /sys without debugfs.
inside() { nsenter --net=/run/netns/inner "$@"; }

# The NI is configured in a namespace that has the interface and its RDMA device; the first
# namespace has neither. Both are back in the end.
in_namespace() {
	local rc=0
	rxe_down
	mkdir -p /run/netns && ip netns add inner && ip link set "$NETDEV" netns inner &&
		inside ip link set lo up && inside ip link set "$NETDEV" up &&
		inside ip addr add "$MY_IP/24" dev "$NETDEV" &&
		inside rdma link add rxe0 type rxe netdev "$NETDEV" || return
	modprobe lnet && lnetctl lnet configure || return
	! net_add || { echo 'added in the wrong namespace'; rc=1; }
	LD_LIBRARY_PATH=$LNET_LIBRARIES inside "$LNETCTL" net add --net o2ib --if "$NETDEV" &&
		loaded "$1" && lctl list_nids | grep -qx "$MY_NID" && lnet_ping "$PEER_NID" &&
		inside rdma resource show cm_id | grep -q "LISTEN.*$MY_IP:987" || rc=1
	net_del
	unload_all || rc=1
	inside rdma link delete rxe0
	inside ip link set "$NETDEV" netns 1 && ip link set "$NETDEV" up &&
		ip addr add "$MY_IP/24" dev "$NETDEV" && ip netns del inner && rxe_up && return $rc
}

# lnet_loading FIRST SECOND: node 1 with the first LND, node 2 with the second.
lnet_loading() {
	if node_is 2; then
		lnet_load "$2"
		run net_add
	fi
	sync_point up
	if node_is 1; then
		LND=$1
		installed_node || fail 'installing'
		if [ "$LND" = c ]; then
			item '6 autoload' autoloaded c
		else
			item '6 autoload' installs
		fi
		opa_files || fail 'OPA files'
		item '7 probe script path' probe_shown
		item '7 probe script loads' plain_probe "$LND"
		item '8 OPA options' opa_options "$LND"
		item '8 OPA device found' opa_probe "$LND"
		item '36 module-parameter config' parameter_config "$LND"
		item '37 namespace' in_namespace "$LND"
		if [ "$LND" = c ]; then
			skip 'uninstalled' 'the C driver is what uninstalling leaves'
		else
			item 'uninstalled' uninstalls
		fi
	fi
	sync_point loaded 200
	if node_is 2; then
		run net_del
		lnet_unload
	fi
	all_items_passed
}
