# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# What an administrator and a peer can see of the LND under real LNet: the items of the
# contract's checklist that can be shown on two nodes with one interface each. To be sourced
# after lnet-lib.sh. Node 1 is where commands run; node 2 serves.

P=/sys/module/ko2iblnd/parameters

# is WHAT GOT WANT: a condition of an item.
is() { [ "$2" = "$3" ] || { echo "$1 is '$2', must be '$3'"; return 1; }; }

# tunable NAME: of the o2ib NI, as lnetctl shows it.
tunable() { lnetctl net show -v --net o2ib | awk -v n="$1:" '$1 == n { print $2; exit }'; }

conns_to_peer() { lctl --net o2ib conn_list | grep -c "^$PEER_NID "; }

# with_net ARGUMENTS -- COMMAND...: while an NI made with these arguments exists.
with_net() {
	local arguments=() rc=0
	while [ "$1" != -- ]; do
		arguments+=("$1")
		shift
	done
	shift
	net_add "${arguments[@]}" || return
	"$@" || rc=$?
	net_del || rc=1
	return $rc
}

# import YAML: through a file, as administrators do.
import() {
	printf '%s\n' "$1" >"$RUN/import.$NODE"
	bounded 30 lnetctl import "$RUN/import.$NODE"
}

# yaml_net LND_TUNABLE: an NI with that.
yaml_net() {
	cat <<-END
		net:
		    - net type: o2ib
		      local NI(s):
		        - interfaces:
		              0: $NETDEV
		          tunables:
		              peer_credits: 8
		          lnd tunables:
		              $1
	END
}

# with_params PARAMETER=VALUE... -- COMMAND...: with the LND loaded so, once. lnetctl of 2.17.57
# takes the tunables that are tried with it in YAML, but does not hand them to the kernel.
with_params() {
	local parameters=() rc=0
	while [ "$1" != -- ]; do
		parameters+=("$1")
		shift
	done
	shift
	rmmod ko2iblnd && lnd_insmod "${parameters[@]}" || return
	"$@" || rc=1
	rmmod ko2iblnd && lnd_insmod || rc=1
	return $rc
}

# shows NAME VALUE...: the NI's tunables are these.
shows() {
	while [ $# -gt 0 ]; do
		is "$1" "$(tunable "$1")" "$2" || return
		shift 2
	done
}

# --- the module ---------------------------------------------------------------------------

in_use_with_an_ni() {
	net_add || return
	! rmmod ko2iblnd 2>/dev/null || { echo 'unloaded under an NI'; return 1; }
	net_del
}

threads_come_and_go() {
	local with without
	net_add || return
	with=$(ps -eo comm | grep -c '^kiblnd_\(connd\|sd_\)')
	net_del || return
	without=$(ps -eo comm | grep -c '^kiblnd_')
	[ "$with" -ge 2 ] && is 'threads without an NI' "$without" 0
}

service_id() { lnetctl service-id | grep -q 0xdb03060100000000; }

defaults_shown() {
	shows peer_timeout 180 peer_credits 8 peer_buffer_credits 0 credits 256 \
		peercredits_hiw 4 concurrent_sends 8 map_on_demand true fmr_pool_size 512 \
		fmr_flush_trigger 384 fmr_cache 1 ntx 512 conns_per_peer 1 timeout 50 tos -1
}

check_module() {
	item '9 in use while an NI exists' in_use_with_an_ni
	item '10 threads' threads_come_and_go
	item '11 service id' service_id
}

# --- configuration ------------------------------------------------------------------------

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
	is parameter "$(cat $P/timeout)" 20 && shows timeout 20 && echo 0 >$P/timeout &&
		shows timeout 49
	local rc=$?
	echo 50 >$P/timeout
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
	item '54 MTU' with_params ib_mtu=1000 -- refused_and_clean net_add
	item '22 conns_per_peer' refused_and_clean net_add --conns-per-peer 128
	item '22 conns_per_peer, YAML' refused_and_clean \
		import "$(yaml_net 'conns_per_peer: 128')"
	item '23 tos' with_net --tos 104 -- shows tos 104
	item '24 bad interface' refused_and_clean lnetctl net add --net o2ib --if nosuch0
	item '25 no RDMA there' refused_and_clean lnetctl net add --net o2ib --if dummy0
	item '26 duplicate' duplicate_refused
	item '27 28 two nets, one listener' two_nets
	item '31 32 backup' backup_round_trip
	item '33 34 timeout' lnd_timeout
	item '35 live conns_per_peer' live_conns_per_peer
}

# --- connections --------------------------------------------------------------------------

# The NIs are up on both nodes; each item ends with them so.
on_demand() {
	lctl --net o2ib del_peer "$PEER_NID" 2>/dev/null
	is 'connections before' "$(conns_to_peer)" 0 && lnet_ping "$PEER_NID" &&
		is 'connections after' "$(conns_to_peer)" 1
}

peer_listed() { lctl --net o2ib peer_list | grep -q "^$PEER_NID .*\[[0-9]*\]"; }

disconnects() {
	lnet_ping "$PEER_NID" && lctl --net o2ib disconnect "$@" || return
	nap 0.5
	is 'connections after disconnect' "$(conns_to_peer)" 0 && lnet_ping "$PEER_NID" &&
		is 'connections after ping' "$(conns_to_peer)" 1
}

unprivileged_port() {
	echo 0 >$P/use_privileged_port
	lctl --net o2ib del_peer "$PEER_NID"
	lnet_ping "$PEER_NID"
	local rc=$? port
	echo 1 >$P/use_privileged_port
	port=$(rdma resource show cm_id |
		sed -n "s/.*CONNECT.*src-addr $MY_IP:\([0-9]*\) dst-addr $PEER_IP:987.*/\1/p")
	[ $rc -eq 0 ] && [ "${port:-0}" -ge 1024 ] || { echo "port $port"; return 1; }
}

privileged_port() {
	lctl --net o2ib del_peer "$PEER_NID"
	lnet_ping "$PEER_NID" || return
	rdma resource show cm_id | grep -q "src-addr $MY_IP:[0-9]\{1,3\} dst-addr $PEER_IP:987" ||
		rdma resource show cm_id | grep -q "src-addr $MY_IP:10[01][0-9] dst-addr $PEER_IP:987" ||
		rdma resource show cm_id | grep "src-addr $MY_IP:102[0-3] dst-addr $PEER_IP:987"
}

dead_address() {
	local start=$SECONDS
	! bounded 60 lnetctl ping 10.98.0.77@o2ib || return
	[ $((SECONDS - start)) -le $((30 * SLOW)) ] || { echo "took $((SECONDS - start)) s"; return 1; }
}

unknown_peer() { lctl --net o2ib del_peer 1.2.3.4@o2ib 2>&1 | grep -qi 'no such'; }

debug_dump() {
	lnet_ping "$PEER_NID" && lnetctl debug peer --nid "$PEER_NID" && nap 0.5
	dmesg | tail -n 40 | grep -q "$PEER_NID"
}

# Both nodes drop their connections, then ping at once, again and again.
race_loop() {
	local i
	for ((i = 0; i < 30; i++)); do
		lctl --net o2ib del_peer "$PEER_NID" >/dev/null 2>&1
		sync_point "deleted-$i"
		lnet_ping "$PEER_NID" || { echo "round $i"; return 1; }
		sync_point "pinged-$i"
	done
}

check_connections() {
	item '38 on demand' on_demand
	item '39 peer list' peer_listed
	item '41 privileged port' privileged_port
	item '41 other port' unprivileged_port
	item '46 disconnect' disconnects "$PEER_NID"
	# The C driver as the one that disconnects usually closes nothing.
	if [ "$LND" = c ]; then
		skip '47 disconnect all' 'the C driver usually closes nothing'
	else
		item '47 disconnect all' disconnects
	fi
	item '48 unknown peer' unknown_peer
	item '52 dead address' dead_address
	item '56 debug dump' debug_dump
}

# --- data -----------------------------------------------------------------------------------

high_concurrency() {
	LST_CONCURRENCY=64 lst_test $((10 / SLOW + 1)) brw read check=full size=64k
}

cksum_on() {
	lnet_ping "$PEER_NID" && lst_test 20 ping && lst_test 10 brw read check=full size=1M
}

check_data() {
	local kind
	for kind in read write; do
		item "58 $kind 3976" lst_test 20 brw $kind check=full size=3976
		item "58 $kind 3984" lst_test 20 brw $kind check=full size=3984
		item "60 $kind 6144 at 2000" lst_test 20 brw $kind check=full size=6144 off=2000
		item "60 $kind 1046528 at 2000" lst_test 10 brw $kind check=full size=1046528 off=2000
	done
	item '63 high concurrency' high_concurrency
}

# checksums FIRST SECOND: on on both ends. The C driver drops its own replies then.
checksums() {
	if [ "$*" != 'ours ours' ]; then
		! node_is 1 || skip '62 checksums' 'the C driver cannot check what it sums up itself'
		return
	fi
	echo 1 >$P/cksum
	sync_point cksum-on 60
	! node_is 1 || item '62 checksums' cksum_on
	sync_point cksum-used 120
	echo 0 >$P/cksum
}

# --- two nodes in step ----------------------------------------------------------------------

# anew NAME ARGUMENTS1 ARGUMENTS2 COMMAND...: both nodes make their NIs anew, with these
# arguments; then node 1 runs the item.
anew() {
	local name=$1 mine=$2
	node_is 1 || mine=$3
	shift 3
	sync_point "before-$name" 60
	# shellcheck disable=SC2086 # words
	net_del && net_add $mine || fail "NI for $name"
	sync_point "made-$name" 60
	! node_is 1 || item "$name" "$@"
	sync_point "did-$name" 120
}

several_conns() {
	lnet_ping "$PEER_NID" && nap 1 && is connections "$(conns_to_peer)" "$1" &&
		lst_test 20 brw write check=full size=64k
}

depths_differ() {
	lnet_ping "$PEER_NID" && LST_CONCURRENCY=32 lst_test 10 brw read check=full size=4k &&
		LST_CONCURRENCY=32 lst_test 10 brw write check=full size=64k
}

# Node 2 has a new incarnation while node 1 has connections to the old one.
stale() {
	sync_point before-stale
	! node_is 1 || lnet_ping "$PEER_NID" >/dev/null
	sync_point pinged-stale
	node_is 1 || { net_del && net_add; } || fail 'new NI'
	sync_point new-incarnation 60
	! node_is 1 || item '49 stale incarnation' eval \
		'lnet_ping "$PEER_NID" || lnet_ping "$PEER_NID"; is connections "$(conns_to_peer)" 1'
	sync_point did-stale 60
}

no_listener_fails_fast() {
	local start=$SECONDS
	! bounded 60 lnetctl ping "$PEER_NID" || return
	[ $((SECONDS - start)) -le $((3 * SLOW)) ] || { echo "took $((SECONDS - start)) s"; return 1; }
}

no_listener() {
	sync_point before-nobody
	node_is 1 || net_del || fail 'net del'
	sync_point nobody 60
	! node_is 1 || item '51 no listener' no_listener_fails_fast
	sync_point did-nobody 60
	node_is 1 || net_add || fail 'net add'
	sync_point somebody 60
	! node_is 1 || item '51 listener is back' eval 'lnet_ping "$PEER_NID" || lnet_ping "$PEER_NID"'
	sync_point did-somebody 120
}

injected_error() {
	lnet_ping "$PEER_NID" || return
	lnetctl fault drop add --source "$MY_NID" --dest "$PEER_NID" --rate 1 \
		--health_error remote_timeout
	! lnet_ping "$PEER_NID" || { echo 'not injected'; return 1; }
	lnetctl fault drop del --all
	lnet_ping "$PEER_NID" || lnet_ping "$PEER_NID"
}

link_status() {
	lnetctl net show -v 2 --net o2ib | awk '$1 == "status:" || $1 == "fatal_error:" { print $2 }' |
		tr '\n' ' '
}

link_is() { [ "$(link_status)" = "$1 " ]; }

link_down_up() {
	lnet_ping "$PEER_NID" || return
	ip link set "$NETDEV" down
	wait_for 10 link_is 'down 1'
	ip link set "$NETDEV" up
	nap 1
	lnet_ping "$PEER_NID" || lnet_ping "$PEER_NID" || lnet_ping "$PEER_NID"
}

# net_del with messages under way: it ends within 1.25 times the LND's timeout.
delete_under_load() {
	local start
	echo 10 >$P/timeout
	export LST_SESSION=$$
	lst new_session --timeout 60 kor
	lst add_group c "$MY_NID"; lst add_group s "$PEER_NID"; lst add_batch b
	lst add_test --batch b --loop 1000000 --concurrency 8 --from c --to s brw write size=1M
	lst run b
	nap 2
	start=$SECONDS
	bounded 60 lnetctl net del --net o2ib || return
	[ $((SECONDS - start)) -le $((14 * SLOW)) ] || { echo "took $((SECONDS - start)) s"; return 1; }
	lst end_session --force
	echo 50 >$P/timeout
}

check_both() {
	anew '40 conns_per_peer' '--conns-per-peer 4' '--conns-per-peer 4' several_conns 4
	anew '43 depth 32 to 8' '--peer-credits 32' '' depths_differ
	anew '43 depth 8 to 32' '' '--peer-credits 32' depths_differ
	anew '63 depth 64' '--peer-credits 64' '--peer-credits 64' high_concurrency
	stale
	no_listener
	anew '68 injected error' '' '' injected_error
	anew '69 link down and up' '' '' link_down_up
	# The last: the other node's selftest session outlives it.
	anew '73 NI deleted under load' '' '' delete_under_load
	! node_is 1 || net_add || fail 'net add'
}

# lnet_checks FIRST SECOND: node 1 with the first LND, node 2 with the second.
lnet_checks() {
	node_is 1 && lnet_load "$1" || lnet_load "$2"
	if node_is 1; then
		check_module
		check_config
	fi
	sync_point configured 300
	run net_add
	selftest_load
	sync_point up
	if node_is 1; then
		check_connections
		check_data
	fi
	sync_point checked 300
	item '45 connection race' race_loop
	checksums "$@"
	check_both
	run net_del
	lnet_unload
	all_items_passed
}

# no_conns: used by wait_for.
no_conns() { [ "$(conns_to_peer)" -eq 0 ]; }

closes_in_time() {
	local start=$SECONDS
	wait_for 30 no_conns
	# The timeout is 10 s, and looked at every now and then.
	[ $((SECONDS - start)) -le $((13 * SLOW)) ] || { echo "took $((SECONDS - start)) s"; return 1; }
}

# busy: pings until there is an end to it. Not lnet_selftest: when its messages fail, its
# session waits for its own work for ever.
busy() {
	# LNet waits uninterruptibly for an answer; the kernel reports what takes 30 s.
	while [ ! -e "$RUN/idle" ]; do
		bounded 60 lnetctl ping --timeout 10 "$PEER_NID"
	done >/dev/null 2>&1
}

# lnet_vanish FIRST SECOND: node 2 cannot be reached any more.
lnet_vanish() {
	node_is 1 && lnet_load "$1" || lnet_load "$2"
	echo 10 >$P/timeout
	run net_add
	sync_point up
	busy &
	! node_is 1 || wait_for 10 eval '! no_conns'
	nap 1
	sync_point busy 60
	node_is 1 || run ip link set "$NETDEV" down
	sync_point gone
	if node_is 1; then
		item '71 peer vanishes: closed in time' closes_in_time
		item '71 peer vanishes: ping fails' eval '! lnet_ping "$PEER_NID"'
	fi
	sync_point without 90
	: >"$RUN/idle"
	wait
	# Sending that fails while the link is down leaves rxe's QP 1 in the error state for good,
	# so that no connection can be made after that, by the C driver neither.
	! node_is 1 || skip '72 recovery' 'rxe sends no CM messages after a failed one'
	sync_point recovered 120
	item '71 peer vanished: net del' net_del
	sync_point deleted 160
	lnet_unload
	all_items_passed
}
