# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 120
# The tunables of an NI as lnetctl sets and shows them: what is clamped, with its line in the log,
# what makes the start of an NI fail, and what can be changed on a live one. No node needs the other.

# shellcheck source=tests/lnet/standin.sh disable=SC2154
. "$here/../lnet/standin.sh"

shown() { si nl_get o2ib0 | si_value "$1"; }
credits() { si_value "$1" <$SI/nis; }

# has WHAT VALUE...: an NI added with the words before "--" shows the values after it.
has() {
	local words=() pair
	while [ "$1" != -- ]; do
		words+=("$1")
		shift
	done
	shift
	run si net add o2ib0 nid="$MY_NID" "${words[@]}" >/dev/null
	for pair; do
		case $pair in
		peer_credits=* | credits=* | peer_timeout=*)
			expect "${words[*]}: ${pair%=*}" "$(credits "${pair%=*}")" "${pair#*=}" ;;
		*) expect "${words[*]}: ${pair%=*}" "$(shown "${pair%=*}")" "${pair#*=}" ;;
		esac
	done
	run si net del o2ib0 >/dev/null
}

# logged TEXT: the kernel log has this line.
logged() { dmesg | grep -qF "$1" || fail "no line \"$1\""; }

# not_started STATUS WORD...: an NI with these words does not start, and leaves nothing.
not_started() {
	local status=$1 out
	shift
	out=$(si net add o2ib0 "$@") && fail "started with $*"
	expect "status with $*" "$(si_value rc <<<"$out")" "$status"
	[ ! -s $SI/nis ] || fail "an NI is left after $*"
}

load_lnd
has -- peer_credits=8 credits=256 peer_timeout=180 peercredits_hiw=4 concurrent_sends=8 \
	map_on_demand=true fmr_pool_size=512 fmr_flush_trigger=384 fmr_cache=1 ntx=512 \
	conns_per_peer=1 timeout=50 tos=-1
has peer_credits=4 -- peer_credits=8
logged 'peer_credits 4 is out of range, using 8'
has peer_credits=64 credits=32 -- peer_credits=32 credits=32
logged 'peer_credits 64 is out of range, using 32'
has peer_credits=32 peercredits_hiw=40 -- peercredits_hiw=31
logged 'peer_credits_hiw 40 is out of range, using 31'
has peer_credits=32 peercredits_hiw=4 -- peercredits_hiw=16
has peer_credits=32 concurrent_sends=200 -- concurrent_sends=64
logged 'concurrent_sends 200 is out of range, using 64'
has peer_credits=32 concurrent_sends=16 -- concurrent_sends=16
logged 'concurrent_sends 16 is less than peer_credits 32'
has tos=104 conns_per_peer=4 peer_timeout=0 -- tos=104 conns_per_peer=4 peer_timeout=0
has conns_per_peer=0 tos=-1 -- conns_per_peer=1 tos=-1
ok 'values in range, and clamped into it'

not_started -100 nid="$MY_NID" ntx=4096 fmr_pool_size=512
logged 'fmr_pool_size 512 is not ntx / 4 or more'
not_started -100 nid=1.2.3.4@o2ib
not_started -100 if=nosuch0
not_started -100 if=lo
for bad in conns_per_peer=128 conns_per_peer=-1 tos=256 tos=-2 ntx=65536 \
	concurrent_sends=4294967297 peercredits_hiw=-1; do
	not_started -34 nid="$MY_NID" $bad
done
logged 'conns_per_peer 128 is outside 0..127'
ok 'values with which no NI starts'

run si net add o2ib0 nid="$MY_NID" >/dev/null
run si nl_set o2ib0 conns_per_peer=2 tos=8 >/dev/null
expect conns_per_peer "$(shown conns_per_peer)" 2
expect tos "$(shown tos)" 8
run_fails si nl_set o2ib0 conns_per_peer=128 >/dev/null
expect conns_per_peer "$(shown conns_per_peer)" 2
echo 20 >/sys/module/ko2iblnd/parameters/timeout
expect timeout "$(shown timeout)" 20
echo 0 >/sys/module/ko2iblnd/parameters/timeout
expect_at_least "LNet's timeout" "$(shown timeout)" 1
expect 'timeout in a backup' "$(si nl_get o2ib0 backup=1 | si_value timeout)" ''
expect 'a wrong attribute' "$(si nl_get o2ib0 type=3 | si_value rc)" -95
expect 'a wrong command' "$(si nl_get o2ib0 cmd=9 | si_value rc)" -95
run_fails rmmod ko2iblnd 2>/dev/null
run si net del o2ib0 >/dev/null
run rmmod ko2iblnd
ok 'a live NI'

# Parameters that no NI can start with are found when one is to start.
load_lnd ib_mtu=1500
not_started -22 nid="$MY_NID"
logged 'ib_mtu 1500 is not 0, 256, 512, 1024, 2048 or 4096'
run rmmod ko2iblnd
load_lnd peer_credits=300 credits=1024 concurrent_sends=100000
has -- peer_credits=255 peercredits_hiw=127 concurrent_sends=510
run rmmod ko2iblnd
load_lnd ntx=70000 conns_per_peer=200
logged 'module parameter: ntx 70000 is out of range, using 65535'
logged 'module parameter: conns_per_peer 200 is out of range, using 127'
expect violations "$(si_check total)" 0
unload_lnd
ok 'parameters'
