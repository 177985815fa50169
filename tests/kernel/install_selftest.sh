#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Shows that `install-module` puts ours before the C driver, and that `uninstall` brings that back:
# what modprobe would load, in a module tree made here. Runs in the root.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
kver=7.2.0-test
passed=0 failed=0

# module FILE: an object that depmod takes for a module.
module() {
	mkdir -p "$(dirname "$1")"
	printf 'const char info[] __attribute__((section(".modinfo"))) = "license=GPL";\n' |
		gcc-14 -x c -c -o "$1" -
}

# loads WHAT FILE: modprobe would load that file.
loads() {
	local got
	got=$(modprobe -d "$tmp" -S $kver --show-depends ko2iblnd | awk '{ print $2 }')
	if [ "$got" = "$tmp/lib/modules/$kver/$2" ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "install_selftest: $1: modprobe loads $got"
	fi
}

mkdir -p "$tmp/kdir/include/config"
echo $kver >"$tmp/kdir/include/config/kernel.release"
module "$tmp/ours.ko"
for theirs in extra/lustre updates/kernel/net/lustre; do
	rm -rf "$tmp/lib"
	module "$tmp/lib/modules/$kver/$theirs/ko2iblnd.ko"
	touch "$tmp/lib/modules/$kver/modules."{order,builtin,builtin.modinfo}
	export INSTALL_MOD_PATH=$tmp
	depmod -b "$tmp" $kver
	loads "the C driver alone in $theirs" "$theirs/ko2iblnd.ko"
	"$here/../../scripts/install-module" install "$tmp/kdir" "$tmp/ours.ko" >/dev/null
	loads "installed beside $theirs" updates/ko2iblnd-rs/ko2iblnd.ko
	"$here/../../scripts/install-module" uninstall "$tmp/kdir"
	loads "uninstalled beside $theirs" "$theirs/ko2iblnd.ko"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
