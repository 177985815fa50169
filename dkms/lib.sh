# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# What the scripts that DKMS runs have in common. Sourced with the kernel's release as $1.
set -euo pipefail

# The distribution's compilers, which built the kernel; another rustc in the caller's PATH
# (rustup's) is not looked at.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin

kernel=$1
conf=/etc/ko2iblnd-rs/lnet.conf
kdirs=/var/lib/ko2iblnd-rs/kdir
headers=/lib/modules/$kernel/build
# In lnet.conf, in place of a tree: build against the stand-in that the tests use.
standin_word=standin-for-tests-only

# refuse MESSAGE: DKMS keeps what its scripts print in a log and shows only the log's name. The
# reason goes to where dkms itself writes, too: the terminal of apt, a log of the CI.
refuse() {
	local line="ko2iblnd-rs: kernel $kernel: $*" pid=$PPID log
	printf '%s\n' "$line" >&2
	log=$(readlink "/proc/$$/fd/2")
	while [ "${pid:-0}" -gt 1 ] && [ "$(readlink "/proc/$pid/fd/2")" = "$log" ]; do
		pid=$(awk '$1 == "PPid:" { print $2 }' "/proc/$pid/status")
	done
	[ "${pid:-0}" -le 1 ] || printf '\n%s\n' "$line" 2>/dev/null >>"/proc/$pid/fd/2" || true
	exit 1
}

# lnet_entry: what lnet.conf names for the kernel: the first line whose pattern matches.
lnet_entry() {
	local pattern tree rest
	while read -r pattern tree rest; do
		case $pattern in '' | '#'*) continue ;; esac
		{ [ -n "$tree" ] && [ -z "$rest" ]; } ||
			refuse "$conf: a line is not 'KERNEL-PATTERN TREE': $pattern $tree $rest"
		# shellcheck disable=SC2254 # it is a pattern
		case $kernel in $pattern) ;; *) continue ;; esac
		case $tree in
		"$standin_word") echo "$tree" ;;
		/*) realpath -m -- "${tree//%k/$kernel}" ;;
		*) refuse "$conf: $tree is no absolute path" ;;
		esac
		return
	done <"$conf"
	refuse "$conf names no LNet tree for it: build LNet for it, add a line, then run" \
		"'dkms autoinstall -k $kernel'"
}

# has_metadata DIR: the kernel tree can build Rust modules as it is.
has_metadata() { [ -s "$1/rust/libkernel.rmeta" ] || [ -s "$1/rust/kernel.o" ]; }

# kernel_tree: the tree to build against.
kernel_tree() {
	if has_metadata "$headers"; then
		echo "$headers"
	else
		echo "$kdirs/$kernel"
	fi
}
