# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 60
# kernels: um um-debug stock
# fast
# A file of the LND in debugfs that somebody holds open keeps the module: its release would
# run in memory that is not the module's any more.

# shellcheck source=tests/lnet/standin.sh
. "$TREE/tests/lnet/standin.sh"

CONNS=${STATS%/*}/conns

# holds FILE: the module stays while FILE is open, and what is read is whole.
holds() {
	local line
	exec 7<"$1" || fail "cannot open $1"
	read -ru7 line || true
	run_fails rmmod ko2iblnd 2>/dev/null
	expect 'the module' "$(cat /sys/module/ko2iblnd/initstate)" live
	exec 7<&-
}

load_lnd
holds "$STATS"
holds "$CONNS"
ok 'an open file keeps the module'
expect 'lines of stats that are whole' "$(grep -c '^counter lost_messages 0$' "$STATS")" 1
# Readers that come and go while the module does: they read, or find no file.
(while [ ! -e "$RUN/gone.$NODE" ]; do cat "$STATS" "$CONNS" >/dev/null 2>&1 || true; done) &
reader=$!
for _ in 1 2; do
	wait_for 10 rmmod ko2iblnd 2>/dev/null
	run insmod "$KO/ko2iblnd.ko"
done
: >"$RUN/gone.$NODE"
wait "$reader"
unload_lnd
