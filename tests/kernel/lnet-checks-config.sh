# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# The checklist's items about the configuration of NIs (F.2). Sourced by lnet-checks.sh.

# --- configuration ------------------------------------------------------------------------

defaults_shown() {
	shows peer_timeout 180 peer_credits 8 peer_buffer_credits 0 credits 256 \
		peercredits_hiw 4 concurrent_sends 8 map_on_demand true fmr_pool_size 512 \
		fmr_flush_trigger 384 fmr_cache 1 ntx 512 conns_per_peer 1 timeout 50 tos -1
}

add_by_nid() {
	bounded 30 lnetctl net add --nid "$MY_NID" || return
	lctl list_nids | grep -qx "$MY_NID" || { net_del; return 1; }
	net_del
}

refused_and_clean() {
	! "$@" || { echo "not refused: $*"; net_del; return 1; }
	! lnetctl net show | grep -q o2ib || { echo 'an NI is left'; return 1; }
}

duplicate_refused() {
	net_add || return
	! net_add || { echo 'added twice'; return 1; }
	lctl list_nids | grep -qx "$MY_NID" || return
	net_del
}

two_nets() {
	local listeners
	net_add || return
	bounded 30 lnetctl net add --net o2ib1 --if "$NETDEV" || return
	listeners=$(rdma resource show cm_id | grep -c 'state LISTEN.*:987')
	bounded 30 lnetctl net del --net o2ib1 || return
	net_del || return
	is listeners "$listeners" 1
}

backup_round_trip() {
	local file=$RUN/backup.$NODE before after
	net_add --peer-credits 16 --conns-per-peer 2 || return
	before=$(lnetctl export --backup)
	! grep -q ' timeout:' <<<"$before" || { echo 'backup shows timeout'; return 1; }
	grep -q 'map_on_demand: true' <<<"$before" || { echo 'no map_on_demand'; return 1; }
	printf '%s\n' "$before" >"$file"
	net_del || return
	bounded 30 lnetctl import "$file" || return
	after=$(lnetctl export --backup)
	net_del || return
	is backup "$after" "$before"
}

lnd_timeout() {
	net_add || return
	lnetctl net set --lnd-timeout 20 --net o2ib
	is parameter "$(cat "$P/timeout")" 20 && shows timeout 20 && echo 0 >"$P/timeout" &&
		shows timeout 49
	local rc=$?
	echo 50 >"$P/timeout"
	net_del
	return $rc
}

live_conns_per_peer() {
	net_add || return
	lnetctl net set --all --conns-per-peer 2
	local rc=0
	shows conns_per_peer 2 || rc=1
	net_del
	return $rc
}

# What an NI bound to CPT 0 has: its threads are of that one, and LNet shows it.
on_cpt_0() {
	local threads
	threads=$(ps -eo comm | grep '^kiblnd_sd_')
	[ -n "$threads" ] && ! grep -v '^kiblnd_sd_00_' <<<"$threads" || {
		echo "threads: $threads"
		return 1
	}
	is CPT "$(tunable CPT)" '"[0]"'
}

# One NUMA node or none: the device belongs to CPT 0, or to none in particular.
dev_cpt() {
	local cpt
	cpt=$(lnetctl net show -v --net o2ib | sed -n 's/^ *dev cpt: *//p')
	[ "$cpt" = 0 ] || [ "$cpt" = -1 ] || { echo "dev cpt: '$cpt'"; return 1; }
}

# Every key that lnetctl takes from a file; those that it does not hand on are seen by loading the
# module with them (with_params).
imported() {
	import "$(cat <<-END
		net:
		    - net type: o2ib
		      local NI(s):
		        - interfaces:
		              0: $NETDEV
		          tunables:
		              peer_timeout: 60
		              peer_credits: 16
		              peer_buffer_credits: 5
		              credits: 64
		          lnd tunables:
		              conns_per_peer: 2
		              tos: 8
		              map_on_demand: true
		              timeout: 7
	END
	)" || return
	local rc=0
	shows peer_timeout 60 peer_credits 16 peer_buffer_credits 5 credits 64 conns_per_peer 2 \
		tos 8 map_on_demand true timeout 50 || rc=1
	net_del && return $rc
}

# An interface whose only address is IPv6, or that has one beside.
v6_only() {
	local rc=0
	ip addr del "$MY_IP/24" dev "$NETDEV" && ip addr add "fd00:98::$NODE/64" dev "$NETDEV" nodad ||
		return
	if net_add; then
		echo 'not refused'
		net_del
		rc=1
	elif ! dmesg | tail -n 20 | grep -q 'ko2iblnd: .*IPv6'; then
		echo 'no line says why'
		rc=1
	fi
	! lnetctl net show | grep -q o2ib || { echo 'an NI is left'; rc=1; }
	ip addr add "$MY_IP/24" dev "$NETDEV"
	ip addr del "fd00:98::$NODE/64" dev "$NETDEV"
	return $rc
}

v6_beside() {
	local rc=0
	ip addr add "fd00:98::$NODE/64" dev "$NETDEV" nodad || return
	net_add || rc=1
	lctl list_nids | grep -qx "$MY_NID" || { lctl list_nids; rc=1; }
	net_del || rc=1
	ip addr del "fd00:98::$NODE/64" dev "$NETDEV"
	return $rc
}

check_config() {
	item '13 15 defaults' with_net -- defaults_shown
	item '14 add by NID' add_by_nid
	item '16 low clamp' with_net --peer-credits 4 -- shows peer_credits 8
	item '17 high clamp' with_net --peer-credits 300 --credits 1024 -- \
		shows peer_credits 255 peercredits_hiw 127 concurrent_sends 255
	item '18 clamp to credits' with_net --peer-credits 64 --credits 32 -- \
		shows peer_credits 32 credits 32
	item '19 hiw at most' with_params peer_credits=32 peer_credits_hiw=40 -- \
		with_net -- shows peercredits_hiw 31
	item '19 hiw at least' with_params peer_credits=32 peer_credits_hiw=4 -- \
		with_net -- shows peercredits_hiw 16
	item '20 concurrent sends' with_params peer_credits=32 concurrent_sends=200 -- \
		with_net -- shows concurrent_sends 64
	item '21 pool check' with_params ntx=4096 fmr_pool_size=512 -- refused_and_clean net_add
	item '54 MTU refused' with_params ib_mtu=1000 -- refused_and_clean net_add
	item '22 conns_per_peer' refused_and_clean net_add --conns-per-peer 128
	item '22 conns_per_peer, YAML' refused_and_clean \
		import "$(yaml_net 'conns_per_peer: 128')"
	item '23 tos' with_net --tos 104 -- shows tos 104
	item '24 bad interface' refused_and_clean lnetctl net add --net o2ib --if nosuch0
	item '25 no RDMA there' refused_and_clean lnetctl net add --net o2ib --if dummy0
	item '26 duplicate' duplicate_refused
	item '27 28 two nets, one listener' two_nets
	item '29 CPT binding' with_net --cpt '[0]' -- on_cpt_0
	item '30 dev cpt' with_net -- dev_cpt
	item '31 YAML import' imported
	item '31 32 backup' backup_round_trip
	item '33 34 timeout' lnd_timeout
	item '35 live conns_per_peer' live_conns_per_peer
	if [ "$LND" = c ]; then
		skip 'interface with an IPv6 address alone' 'the C driver takes it, and no peer can use it'
	else
		item 'interface with an IPv6 address alone' v6_only
	fi
	item 'interface with an IPv6 address, too' v6_beside
}
