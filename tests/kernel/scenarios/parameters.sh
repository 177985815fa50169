# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 60
# kernels: um
# The module parameters as the administrator sees them: 27 files with the C driver's names,
# types, modes and defaults, and what is refused at load and while loaded. No node needs the other.

P=/sys/module/ko2iblnd/parameters

# name, type, mode, default: lnd-contract.md 6.
parameters() {
	cat <<-END
		cksum int 644 0
		concurrent_sends int 444 0
		conns_per_peer uint 444 1
		credits int 444 256
		dev_failover int 444 0
		fmr_cache int 444 1
		fmr_flush_trigger int 444 384
		fmr_pool_size int 444 512
		ib_mtu int 444 0
		ipif_name charp 444 ib0
		keepalive int 644 100
		map_on_demand int 444 1
		nscheds int 444 0
		ntx int 444 512
		peer_buffer_credits int 444 0
		peer_credits int 444 8
		peer_credits_hiw int 444 0
		peer_timeout int 444 180
		require_privileged_port int 644 0
		retry_count int 644 5
		rnr_retry_count int 644 6
		service int 444 987
		timeout int 644 50
		tos int 444 -1
		use_fastreg_gaps int 444 0
		use_privileged_port int 644 1
		wrq_sge uint 444 2
	END
}

# set_to NAME VALUE: write a parameter of the loaded module.
set_to() { (printf '%s' "$2" >"$P/$1") 2>/dev/null; }

# refused PARAMETER=VALUE: loading with it must fail, with this text in the kernel log.
refused() {
	run_fails insmod "$KO/ko2iblnd.ko" "$1" 2>/dev/null
	[ ! -d /sys/module/ko2iblnd ] || fail "loaded with $1"
	dmesg | grep -qF "$2" || fail "no line \"$2\" after $1"
}

taken() {
	load_lnd "$@"
	run rmmod ko2iblnd
}

load_standin
for name in $(parameters | cut -d' ' -f1); do
	modinfo -F parm "$KO/ko2iblnd.ko" | grep -q "^$name:" || fail "modinfo has no $name"
done
expect 'parameters in modinfo' "$(modinfo -F parm "$KO/ko2iblnd.ko" | wc -l)" 27

load_lnd
seen=$(for file in "$P"/*; do
	echo "${file##*/} $(stat -c %a "$file") $(cat "$file")"
done)
expect parameters "$seen" "$(parameters | cut -d' ' -f1,3,4)"
expect types "$(modinfo -F parm "$KO/ko2iblnd.ko" | sed 's/^\([a-z_]*\):.*(\([a-z]*\))$/\1 \2/' |
	sort)" "$(parameters | cut -d' ' -f1,2)"

run set_to timeout 20
expect timeout "$(cat $P/timeout)" 20
run_fails set_to timeout -1
run_fails set_to timeout soon
run_fails set_to retry_count -1
expect timeout "$(cat $P/timeout)" 20
run set_to keepalive -1
expect keepalive "$(cat $P/keepalive)" -1
run rmmod ko2iblnd
ok 'visible and settable'

for value in -2 256 100000; do
	refused tos=$value "parameter tos: $value is outside -1..255"
done
for value in -1 0 65536; do
	refused service=$value "parameter service: $value is outside 1..65535"
done
for name in nscheds ntx credits peer_credits peer_credits_hiw peer_buffer_credits \
	concurrent_sends fmr_pool_size fmr_flush_trigger retry_count rnr_retry_count timeout; do
	refused $name=-1 "parameter $name: -1 is less than 0"
done
refused tos=high "invalid for parameter"
refused conns_per_peer=-1 "invalid for parameter"
taken tos=-1 service=1 ntx=0
taken tos=255 service=65535 peer_timeout=-1 keepalive=-1
# The options of the hfi1 profile that is shipped with Lustre.
taken peer_credits=32 peer_credits_hiw=16 credits=1024 concurrent_sends=64 ntx=2048 \
	map_on_demand=256 fmr_pool_size=2048 fmr_flush_trigger=512 fmr_cache=1 conns_per_peer=4
run rmmod lnet_standin
ok 'refused and taken'
