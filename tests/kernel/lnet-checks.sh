# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# What an administrator and a peer can see of the LND under real LNet: the items of the
# contract's checklist that can be shown on two nodes with one interface each. To be sourced
# after lnet-lib.sh. Node 1 is where commands run; node 2 serves.

# shellcheck disable=SC2034 # for the files of the sections
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

for part in module config conns data faults; do
	# shellcheck disable=SC1090
	. "$TREE/tests/kernel/lnet-checks-$part.sh"
done

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

# lnet_checks FIRST SECOND: node 1 with the first LND, node 2 with the second.
lnet_checks() {
	if node_is 1; then lnet_load "$1"; else lnet_load "$2"; fi
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
	check_connections_both
	check_data_both
	check_faults "$1"
	run net_del
	lnet_unload
	all_items_passed
}
