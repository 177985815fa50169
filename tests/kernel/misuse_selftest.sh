#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What rust/misuse.rs does with the rooms must not compile: the module is built with it, and the
# errors of the compiler are compared with the comments there, line by line.
set -euo pipefail

tree=$(cd "$(dirname "$0")/../.." && pwd)
source=$tree/rust/misuse.rs
kdir=${KDIR:-$("$tree/scripts/build-kernel" um)}
out=$tree/build/misuse
log=$out/errors
mkdir -p "$out"

if make --no-print-directory -C "$tree" KDIR="$kdir" OUT="$out" KOR_MISUSE=1 modules >"$log" 2>&1; then
	echo "FAIL misuse: rust/misuse.rs compiles"
	echo "0 passed, 1 failed"
	exit 1
fi

# wanted / found: LINE CODE, sorted.
wanted() { awk '/\/\/~ / { print NR, $NF }' "$source"; }
found() {
	awk '
		/^error\[E[0-9]+\]/ { code = substr($1, 7, 5) }
		/^error: / { code = "" }
		code != "" && /^ *--> / { split($2, at, ":"); n = split(at[1], path, "/")
			print path[n] == "misuse.rs" ? at[2] : $2, code; code = "" }' "$log" | sort -n
}

passed=0 failed=0
while read -r line code; do
	if grep -qx "$line $code" <(found); then
		passed=$((passed + 1))
	else
		echo "FAIL misuse: rust/misuse.rs:$line: not refused with $code"
		failed=$((failed + 1))
	fi
done < <(wanted)
while read -r line code; do
	grep -qx "$line $code" <(wanted) && continue
	echo "FAIL misuse: $line: an error that is not meant to be there: $code; see $log"
	failed=$((failed + 1))
done < <(found)
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
