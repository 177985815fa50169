# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 40
# kernels: stock
# R6: the RDMA stack that is loaded is not the kernel's own. On UML it is built in, so there is no
# other. No node needs the other.

. "$TREE/tests/kernel/other-build.sh"

# external NAME: prints a copy of the kernel's own module without what its build marks it with.
external() {
	local copy=$OTHER/$1.ko
	mkdir -p $OTHER
	xz -dc "$(modinfo -n "$1")" >"$copy.own" || fail "cannot read $1"
	# Without the signature, which is no part of the object, too.
	objcopy "$copy.own" "$copy" || fail "cannot change $1"
	LC_ALL=C sed -i 's/\x00intree=Y\x00/\x00elsewhr=\x00/' "$copy"
	[ -z "$(modinfo -F intree "$copy")" ] || fail "$1 is still marked"
	echo "$copy"
}

unload_rdma() { run modprobe -r rdma_rxe rdma_cm ib_core; }

ib_core=$(external ib_core)
rdma_cm=$(external rdma_cm)
run rxe_down
unload_rdma
[ ! -d /sys/module/ib_core ] || fail 'ib_core is still there'

load_standin
run insmod "$ib_core"
run modprobe rdma_cm
expect "ib_core's taint" "$(tr -d E </sys/module/ib_core/taint)" O
run refused_with "the ib_core that is loaded is not the kernel's"
unload_rdma
ok 'an external ib_core is refused'

# insmod does not look for what it needs.
run modprobe -a iw_cm ib_cm configfs
run insmod "$rdma_cm"
run refused_with "the rdma_cm that is loaded is not the kernel's"
unload_rdma
ok 'an external rdma_cm is refused'

run modprobe rdma_cm
load_lnd
unload_lnd
ok "the kernel's own is taken"
