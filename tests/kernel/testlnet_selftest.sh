#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What test-lnet refuses: each in one line, and before a root or a kernel is made. The trees are
# made here: no Lustre is needed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export KOR_CACHE=$tmp/cache
passed=0 failed=0

# refuses NAME PATTERN ARGUMENT...: status 1, that one line, and nothing in the cache.
refuses() {
	local name=$1 pattern=$2 rc=0 why=
	shift 2
	"$here/../../scripts/test-lnet" "$@" >"$tmp/out" 2>&1 || rc=$?
	# For the test that looks whether any error line is forgotten.
	[ -z "${KOR_SEEN:-}" ] || cat "$tmp/out" >>"$KOR_SEEN"
	[ $rc -eq 1 ] || why="status $rc"
	[ "$(wc -l <"$tmp/out")" -eq 1 ] && grep -q "^test-lnet: error: $pattern" "$tmp/out" ||
		why="does not say just \"$pattern\""
	[ ! -e "$KOR_CACHE" ] || why="made something in the cache"
	if [ -z "$why" ]; then
		echo "PASS test-lnet: $name"
		passed=$((passed + 1))
	else
		echo "FAIL test-lnet: $name: $why"
		sed 's/^/  | /' "$tmp/out"
		failed=$((failed + 1))
	fi
}

tree=$tmp/tree
mkdir -p "$tree/lnet/lnet"
refuses 'no such tree' 'no directory /nowhere: give a built Lustre tree' /nowhere
refuses 'a tree that is not built' '.* has no lnet.ko: it must be a built Lustre tree' "$tree"
printf 'license=GPL\0vermagic=9.9.9 SMP preempt mod_unload modversions \0' >"$tree/lnet/lnet/lnet.ko"
refuses 'no symbols' '.* has no Module.symvers: it must be' "$tree"
touch "$tree"/{Module.symvers,config.h,lnetctl}
refuses 'another kernel' ".* is for kernel '9.9.9 SMP preempt', which none" "$tree"
refuses 'no such scenario' "no scenario 'ours-curs': a file, or one of .* ours-c ours-ours" \
	"$tree" ours-c ours-curs
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
