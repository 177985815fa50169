#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Which kernel a root gets, from archives made here in which versions and series are missing. Runs in
# the root, without network.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0

# package NAME VERSION
package() {
	printf 'Package: %s\nVersion: %s\nArchitecture: amd64\nFilename: ./%s.deb\nSize: 1\n' "$1" "$2" "$1"
	printf 'SHA256: %064d\nMaintainer: none\nDescription: one of the self-test\n\n' 0
}

# kernel RELEASE [NOT]: all packages of a kernel, but for one whose name begins with NOT.
kernel() {
	local version=${1%%+*} series name
	series=$(cut -d. -f1,2 <<<"$1")
	for name in "linux-headers-$1" "linux-binary-$1" "linux-modules-$1" \
		"linux-source-$series" "linux-config-$series"; do
		[ -n "${2:-}" ] && [[ $name == "$2"* ]] || package "$name" "$version-1"
	done
}

# archive <PACKAGES: apt knows that, and nothing else.
archive() {
	rm -rf "$tmp/apt"
	mkdir -p "$tmp/repo" "$tmp"/apt/{etc/parts,lists/partial,cache/archives/partial}
	cat >"$tmp/repo/Packages"
	touch "$tmp/apt/status"
	echo "deb [trusted=yes] file:$tmp/repo ./" >"$tmp/apt/etc/sources.list"
	cat >"$tmp/apt/conf" <<-END
		APT::Sandbox::User "root";
		Dir::Etc::sourcelist "$tmp/apt/etc/sources.list";
		Dir::Etc::sourceparts "$tmp/apt/etc/parts";
		Dir::Etc::preferencesparts "$tmp/apt/etc/parts";
		Dir::State "$tmp/apt";
		Dir::State::lists "$tmp/apt/lists";
		Dir::State::status "$tmp/apt/status";
		Dir::Cache "$tmp/apt/cache";
	END
	APT_CONFIG=$tmp/apt/conf apt-get update >"$tmp/update" 2>&1 || { cat "$tmp/update"; exit 1; }
}

# chooses WHAT STATUS RELEASE LINE -- SERIES FALLBACK: kernel_choose ends with that status, prints
# that release, and says one line with LINE in it, or nothing.
chooses() {
	local what=$1 status=$2 release=$3 line=$4 rc=0 got said
	shift 5
	# shellcheck disable=SC2016
	got=$(APT_CONFIG=$tmp/apt/conf bash -euo pipefail -c '. "$0"; kernel_choose "$1" here "$2"' \
		"$here/../../scripts/root/series" "$@" 2>"$tmp/said") || rc=$?
	said=$(cat "$tmp/said")
	if [ "$rc" = "$status" ] && [ "$got" = "$release" ] && [ "$(wc -l <"$tmp/said")" -le 1 ] &&
		case $line in '') [ -z "$said" ] ;; *) [[ $said == *"$line"* ]] ;; esac; then
		echo "PASS kernels: $what"
		passed=$((passed + 1))
	else
		echo "FAIL kernels: $what: status $rc, '$got', says '$said'"
		failed=$((failed + 1))
	fi
}

{
	package linux-headers-7.2.9+deb13-amd64 7.2.9-1
	kernel 7.2.12+deb13-amd64
	package linux-headers-7.2.12+deb13-rt-amd64 7.2.12-1
	package linux-headers-7.2.12+deb13-cloud-amd64 7.2.12-1
	kernel 7.3.4+deb13-amd64
} | archive
chooses 'newest of a series' 0 7.2.12+deb13-amd64 '' -- 7.2 no
chooses 'newest of the default series' 0 7.3.4+deb13-amd64 '' -- 7.3 yes
chooses 'newest of all' 0 7.3.4+deb13-amd64 '' -- testing no

{
	kernel 7.2.13+deb13-amd64
	kernel 7.3.4+deb13-amd64
} | archive
chooses 'a version has left: the next' 0 7.2.13+deb13-amd64 '' -- 7.2 no

{
	kernel 7.3.4+deb13-amd64
	# Halves of uploads: not yet the source, not yet the image.
	for name in headers binary modules; do
		package linux-$name-7.3.5+deb13-amd64 7.3.5-1
	done
	kernel 7.4.1+deb13-amd64 linux-binary
} | archive
chooses 'not one without its source' 0 7.3.4+deb13-amd64 '' -- 7.3 yes
chooses 'not one without its image' 0 7.3.4+deb13-amd64 '' -- testing no
chooses 'a series has left: one line' 3 '' \
	'kernel 7.2 has left here (newest there: 7.3.4+deb13-amd64)' -- 7.2 no
chooses 'the default has left: one line, and on' 0 7.3.4+deb13-amd64 \
	'kernel 7.2 has left here: taking 7.3.4+deb13-amd64' -- 7.2 yes

kernel 7.20.1+deb13-amd64 | archive
chooses '7.20 is not of 7.2' 3 '' 'kernel 7.2 has left here' -- 7.2 no

package linux-headers-7.3.4+deb13-amd64 7.3.4-1 | archive
chooses 'all have left: one line' 3 '' '(newest there: none)' -- 7.3 yes

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
