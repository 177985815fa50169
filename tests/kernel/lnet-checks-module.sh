# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# The checklist's items about the module (F.1). Sourced by lnet-checks.sh.

# Name, sysfs mode and default of the parameters.
PARAMETERS='cksum 644 0
concurrent_sends 444 0
conns_per_peer 444 1
credits 444 256
dev_failover 444 0
fmr_cache 444 1
fmr_flush_trigger 444 384
fmr_pool_size 444 512
ib_mtu 444 0
ipif_name 444 ib0
keepalive 644 100
map_on_demand 444 1
nscheds 444 0
ntx 444 512
peer_buffer_credits 444 0
peer_credits 444 8
peer_credits_hiw 444 0
peer_timeout 444 180
require_privileged_port 644 0
retry_count 644 5
rnr_retry_count 644 6
service 444 987
timeout 644 50
tos 444 -1
use_fastreg_gaps 444 0
use_privileged_port 644 1
wrq_sge 444 2'

# parameters_with WORDS...: those of the columns above.
parameters_with() { awk -v columns="$*" '{ split(columns, c, " "); line = $c[1]
	for (i = 2; i in c; i++) line = line " " $c[i]
	print line }' <<<"$PARAMETERS"; }

parameter_set() {
	is 'parameters in the file' "$(modinfo -F parm "$(lnd_file)" | cut -d: -f1 | sort)" \
		"$(parameters_with 1)"
}

sysfs_set() { is 'files in sysfs' "$(cd "$P" && ls)" "$(parameters_with 1)"; }

sysfs_modes() { is modes "$(cd "$P" && stat -c '%n %a' -- *)" "$(parameters_with 1 2)"; }

default_values() {
	is defaults "$(cd "$P" && for name in *; do echo "$name $(cat "$name")"; done)" \
		"$(parameters_with 1 3)"
}

bad_tos() {
	local out
	rmmod ko2iblnd || return
	out=$(lnd_insmod tos=256 2>&1) && { echo 'loaded'; return 1; }
	lnd_insmod || return
	grep -qi 'result.* out of range' <<<"$out" || { echo "refused with: $out"; return 1; }
}

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

check_module() {
	item '1 parameter set' parameter_set
	item '2 sysfs set' sysfs_set
	item '3 sysfs modes' sysfs_modes
	item '4 defaults' default_values
	item '5 bad tos refused' bad_tos
	item '9 in use while an NI exists' in_use_with_an_ni
	item '10 threads' threads_come_and_go
	item '11 service id' service_id
}
