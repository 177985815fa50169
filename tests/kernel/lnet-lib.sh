# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# What a scenario with real LNet can use beside lib.sh: Lustre's own modules and tools, from the
# built tree in LNET. To be sourced by a scenario, which test-lnet runs.
#
# Each check is an item: it passes or fails by itself, in a line of $RUN/items.NODE, and the
# scenario goes on. lnet_results.py makes the table of them.

# The modules and tools are found by name: a tree that was built and one that was installed
# somewhere differ in their directories.
mapfile -t LNET_FILES < <(find "$LNET" \( -name '*.ko' -o -name 'liblnetconfig.so*' -o \
	-name 'liblustreapi.so*' -o -name lnetctl -o -name lst -o -name lctl \) \
	! -type d ! -path '*/kconftest*')
SELFTEST_TIMEOUT=60

# lnet_file NAME: its path. A built program is in .libs, beside a script of libtool's.
lnet_file() {
	local path found=
	for path in "${LNET_FILES[@]}"; do
		[ "${path##*/}" = "$1" ] || continue
		found=$path
		[ "$(basename "$(dirname "$path")")" != .libs ] || break
	done
	[ -n "$found" ] || fail "$LNET has no $1: it must be a built Lustre tree"
	echo "$found"
}

lnet_libraries() {
	local path
	for path in "${LNET_FILES[@]}"; do
		case $path in
		*.so | *.so.*) dirname "$path" ;;
		esac
	done | sort -u | tr '\n' ':'
}

LNET_LIBRARIES=$(lnet_libraries)
LNETCTL=$(lnet_file lnetctl)
LST=$(lnet_file lst)
lnetctl() { LD_LIBRARY_PATH=$LNET_LIBRARIES "$LNETCTL" "$@"; }
lst() { LD_LIBRARY_PATH=$LNET_LIBRARIES "$LST" "$@"; }
lctl() { LD_LIBRARY_PATH=$LNET_LIBRARIES "$(lnet_file lctl)" "$@"; }

# --- items ------------------------------------------------------------------------------

# item NAME COMMAND...: run it, a function, too, in a process of its own; note how it went.
item() {
	local name=$1 start=$SECONDS log=$RUN/log.$NODE
	shift
	if ("$@") >"$log" 2>&1; then
		printf 'pass\t%s\t%d s\n' "$name" $((SECONDS - start)) >>"$RUN/items.$NODE"
		ok "$name"
	else
		printf 'fail\t%s\t%s\n' "$name" "$(tail -n 1 "$log" | tr '\t' ' ')" \
			>>"$RUN/items.$NODE"
		say "FAILED: $name"
		sed 's/^/  | /' "$log"
		ITEMS_FAILED=1
	fi
}

# skip NAME REASON: an item that cannot run here.
skip() { printf 'skip\t%s\t%s\n' "$1" "$2" >>"$RUN/items.$NODE"; }

# all_items_passed: the end of a scenario.
all_items_passed() { [ -z "${ITEMS_FAILED:-}" ] || fail 'not all items passed'; }

# bounded SECONDS COMMAND...: as timeout, but for a function, too, and times SLOW.
bounded() {
	local seconds=$(($1 * SLOW)) pid watch rc=0
	shift
	"$@" &
	pid=$!
	{ sleep "$seconds"; kill -KILL $pid 2>/dev/null; } >/dev/null 2>&1 &
	watch=$!
	wait $pid || rc=$?
	kill $watch 2>/dev/null
	[ $rc -ne 137 ] || echo "not done in $seconds s: $*"
	return $rc
}

# soon SECONDS COMMAND...: as wait_for, but an item that waits in vain fails alone.
soon() {
	local end=$((SECONDS + $1 * SLOW))
	shift
	until "$@"; do
		[ "$SECONDS" -lt "$end" ] || { echo "did not come true: $*"; return 1; }
		nap 0.1
	done
}

# --- the modules ------------------------------------------------------------------------

# lnet_load ours | c [PARAMETER=VALUE...]: real LNet with our LND or the C driver.
lnet_load() {
	LND=$1
	shift
	run insmod "$(lnet_file libcfs.ko)"
	# A router's buffers must fit into a small machine.
	run insmod "$(lnet_file lnet.ko)" large_router_buffers=256
	run lnd_insmod "$@"
	[ "$LND" = c ] || [ -e "$STATS" ] || fail 'the module is not ours'
	run lnetctl lnet configure
}

# lnd_file: the LND's module.
lnd_file() {
	case $LND in
	ours) echo "$KO/ko2iblnd.ko" ;;
	c) lnet_file ko2iblnd.ko ;;
	esac
}

# lnd_insmod [PARAMETER=VALUE...]: the LND alone.
lnd_insmod() { insmod "$(lnd_file)" "$@"; }

# lnet_unload: everything, after the last NI was deleted, with nothing left behind. When its
# messages have failed, lnet_selftest may wait for its own work for ever, whatever the LND: then
# only the LND's unloading counts.
lnet_unload() {
	within 5 rmmod ko2iblnd
	if [ -d /sys/module/lnet_selftest ] && ! bounded 10 rmmod lnet_selftest; then
		skip '12 no leak at unloading' 'lnet_selftest waits for itself'
		return
	fi
	run bounded 60 lnetctl lnet unconfigure
	[ ! -d /sys/module/ksocklnd ] || within 5 rmmod ksocklnd
	within 5 rmmod lnet
	within 5 rmmod libcfs
	dmesg | grep -i 'memory leaked' && fail 'libcfs counts leaked memory'
	printf 'pass\t12 no leak at unloading\t\n' >>"$RUN/items.$NODE"
}

# lnet_leave: delete the NI and unload all. The C driver waits for ever for connections whose end it
# could not tell the peer, because the interface or its address was away: it goes as it is.
lnet_leave() {
	if [ "$LND" = c ] && ! bounded 20 lnetctl net del --net o2ib; then
		skip '12 no leak at unloading' 'the C driver does not come to an end with net del'
		: >"$RUN/sync.end.$NODE"
		all_items_passed
		die_now
	fi
	[ "$LND" = c ] || run net_del
	lnet_unload
}

net_add() { bounded 30 lnetctl net add --net o2ib --if "$NETDEV" "$@"; }
net_del() { bounded 150 lnetctl net del --net o2ib; }

# selftest_load: lnet_selftest starts on the NIs that are there.
selftest_load() {
	[ -d /sys/module/lnet_selftest ] || run insmod "$(lnet_file lnet_selftest.ko)"
}

# --- traffic ----------------------------------------------------------------------------

# lnet_ping NID: it must answer with its own name.
lnet_ping() {
	local out
	out=$(bounded 30 lnetctl ping --timeout 20 "$1") || { echo "$out"; return 1; }
	echo "$out"
	grep -q "nid: $1\$" <<<"$out"
}

# connected_from_here: whether the connection to the peer was started by this node.
connected_from_here() {
	rdma resource show cm_id
	rdma resource show cm_id | grep -q "state CONNECT.*dst-addr $PEER_IP:987"
}

# lst_test LOOPS TEST...: this node is client and console, the other one the server.
lst_test() {
	local loops=$1 end
	shift
	export LST_SESSION=$BASHPID
	lst new_session --timeout $SELFTEST_TIMEOUT kor || return
	lst add_group c "$MY_NID" && lst add_group s "$PEER_NID" && lst add_batch b &&
		lst add_test --batch b --loop "$loops" --concurrency "${LST_CONCURRENCY:-8}" \
			--from c --to s "$@" && lst run b || { lst end_session; return 1; }
	end=$((SECONDS + SELFTEST_TIMEOUT * SLOW))
	while lst query b | grep -q running && [ $SECONDS -lt $end ]; do
		nap 0.2
	done
	lst_verdict "$@"
}

# lst_verdict TEST...: the batch has ended by itself and nobody counts an error.
lst_verdict() {
	local state errors
	state=$(lst query b)
	[[ $state == *running* ]] && lst stop b --force
	errors=$(lst show_error c s)
	lst end_session
	printf '%s\n%s\n' "$errors" "$state"
	[[ $state != *running* ]] || { echo "did not end: $*"; return 1; }
	[ "$(grep -c 'Total 0 error nodes' <<<"$errors")" -eq 2 ]
}

# --- what the pairings have in common -----------------------------------------------------

# exchange STARTER: with no connection there, the starter makes one and both use it.
exchange() {
	local starter=$1 way
	item "net add, round $starter" net_add
	sync_point "added-$starter"
	selftest_load
	way="node $starter connects"
	if node_is "$starter"; then
		item "ping, $way" lnet_ping "$PEER_NID"
		item "started by, $way" connected_from_here
	fi
	sync_point "connected-$starter" 60
	node_is "$starter" || item "ping back, $way" lnet_ping "$PEER_NID"
	sync_point "answered-$starter" 60
	node_is "$starter" && selftests "$way"
	sync_point "tested-$starter" 400
	item "net del, round $starter" net_del
	sync_point "deleted-$starter" 100
}

selftests() {
	local way=$1 size kind loops
	item "lst ping, $way" lst_test $((200 / SLOW)) ping
	for size in 4k 1M; do
		[ $size = 4k ] && loops=$((100 / SLOW)) || loops=$((24 / SLOW))
		for kind in read write; do
			item "lst brw $kind $size, $way" lst_test $loops brw $kind check=full size=$size
		done
	done
}

# lnet_pair FIRST SECOND: node 1 with the first LND, node 2 with the second.
lnet_pair() {
	if node_is 1; then lnet_load "$1"; else lnet_load "$2"; fi
	sync_point loaded
	exchange 1
	exchange 2
	lnet_unload
	all_items_passed
}
