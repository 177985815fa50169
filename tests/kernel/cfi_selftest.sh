#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# With CONFIG_CFI, C calls a function by pointer only if the hash of its type is what C makes of the
# pointer's. Here the compilers are asked for the hashes of what C calls of ours: by the names of C's
# structures, and by those of the bindings that a build left behind.
set -euo pipefail

tree=$(cd "$(dirname "$0")/../.." && pwd)
bindings=${1:-$tree/build/misuse/ko2iblnd/bindings_generated.rs}
[ -e "$bindings" ] || { echo "FAIL cfi: no $bindings: tests/kernel/misuse_selftest.sh makes it"; echo "0 passed, 1 failed"; exit 1; }
mkdir -p "$tree/build"
work=$(mktemp -d "$tree/build/cfi.XXXXXX")
trap 'rm -rf "$work"' EXIT

# NAME RESULT(C) RESULT(RUST) ARGUMENTS: types of C, which Rust's are made of.
functions() {
	cat <<'END'
completed void - struct ib_cq *, void *
qp_event void - struct ib_event *, void *
client_add void - void *, struct ib_device *
client_remove void - void *, struct ib_device *
startup int c_int void *, struct lnet_ni *, void **
shutdown void - void *, struct lnet_ni *, void *
show void - void *, struct seq_file *
thread int c_int void *
END
}

{
	echo 'struct ib_cq; struct ib_event; struct ib_device; struct lnet_ni; struct seq_file;'
	while read -r name c _ args; do
		n=0 list=
		while read -r arg; do list+=", $arg a$((n++))"; done < <(tr ',' '\n' <<<"$args")
		body='{ }'
		[ "$c" = void ] || body='{ return 0; }'
		echo "$c kor_probe_$name(${list#, }) $body"
	done < <(functions)
} >"$work/probe.c"

mkdir "$work/lib"
cat >"$work/kernel.rs" <<'EOR'
#![no_std]
#![allow(non_camel_case_types)]
pub mod ffi {
    pub use core::ffi::{c_int, c_schar, c_short, c_uint, c_ushort, c_void};
    pub type c_char = u8;
    pub type c_uchar = u8;
    pub type c_long = isize;
    pub type c_ulong = usize;
    pub type c_longlong = i64;
    pub type c_ulonglong = u64;
}
EOR
{
	echo '#![no_std]'
	echo '#![allow(warnings)]'
	echo 'mod bindings { type __kernel_size_t = usize; type __kernel_ssize_t = isize;'
	echo "type __kernel_ptrdiff_t = isize; include!(\"$bindings\"); }"
	echo 'use bindings::*; use kernel::ffi::*;'
	while read -r name _ rust args; do
		list='' body='{}'
		[ "$rust" = - ] || body="-> $rust { 0 }"
		while read -r arg; do
			case $arg in
			'void **') list+=', _: *mut *mut c_void' ;;
			'void *') list+=', _: *mut c_void' ;;
			*) arg=${arg#struct } list+=", _: *mut ${arg% \*}" ;;
			esac
		done < <(tr ',' '\n' <<<"$args" | sed 's/^ //')
		echo "#[no_mangle] pub unsafe extern \"C\" fn kor_probe_$name(${list#, }) $body"
	done < <(functions)
} >"$work/probe.rs"

kcfi=(-Zsanitizer=kcfi -Zsanitizer-cfi-normalize-integers)
"$tree/scripts/in-root" env RUSTC_BOOTSTRAP=1 KOR_WORK="$work" bash -euc '
	cd "$KOR_WORK"
	clang-19 --target=x86_64-linux-gnu -fsanitize=kcfi \
		-fsanitize-cfi-icall-experimental-normalize-integers -S -emit-llvm -o c.ll probe.c
	rustc --edition 2021 --crate-type rlib --crate-name kernel -Cpanic=abort '"${kcfi[*]}"' \
		--out-dir lib kernel.rs
	rustc --edition 2021 --crate-type rlib -Cpanic=abort '"${kcfi[*]}"' -L lib \
		--extern kernel=lib/libkernel.rlib --emit=llvm-ir -o rust.ll probe.rs'

# hashes FILE: NAME HASH of each function.
hashes() {
	awk '
		/^define .*@kor_probe_/ && match($0, /@kor_probe_[a-z_]*/) {
			name = substr($0, RSTART + 11, RLENGTH - 11)
			if (match($0, /!kcfi_type ![0-9]+/)) {
				node = substr($0, RSTART + 11, RLENGTH - 11)
				of[node] = of[node] " " name
			}
		}
		/^![0-9]+ = !\{i32 -?[0-9]+\}/ { hash = $4; sub(/}/, "", hash); n = split(of[$1], names, " ")
			for (i = 1; i <= n; i++) print names[i], hash }' "$1" | sort
}

passed=0 failed=0
while read -r name _; do
	c=$(hashes "$work/c.ll" | awk -v n="$name" '$1 == n { print $2 }')
	rust=$(hashes "$work/rust.ll" | awk -v n="$name" '$1 == n { print $2 }')
	if [ -n "$c" ] && [ "$c" = "$rust" ]; then
		passed=$((passed + 1))
	else
		echo "FAIL cfi: $name: C calls it by ${c:-no hash}, the bindings make it ${rust:-no hash}"
		failed=$((failed + 1))
	fi
done < <(functions)
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
