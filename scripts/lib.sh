# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Common functions of the scripts in this directory. To be sourced by bash.

set -euo pipefail
# Without this, errexit is off inside $(...).
shopt -s inherit_errexit

KOR_SCRIPTS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
KOR_TREE=$(dirname "$KOR_SCRIPTS")
KOR_CACHE=${KOR_CACHE:-/var/cache/ko2iblnd-rs}
KOR_JOBS=${KOR_JOBS:-$(nproc)}
export KOR_CACHE KOR_JOBS

# all_series: what SERIES may be, the default first.
all_series() { awk '!/^#/ && NF { print $1 }' "$KOR_SCRIPTS/kernels"; }
default_series() { all_series | head -n 1; }

# read_series: sets SERIES, where it is not set (in a root, to that root's), and SUITE, ARCHIVE and KNOWN of its line.
read_series() {
	[ -n "${SERIES:-}" ] || ! in_kor_root || SERIES=$(. /etc/kor-root; echo "$SERIES")
	SERIES=${SERIES:-default}
	[ "$SERIES" != default ] || SERIES=$(default_series)
	# shellcheck disable=SC2034 # for those who source this
	read -r SUITE ARCHIVE KNOWN < <(awk -v series="$SERIES" \
		'$1 == series { print $2, $3, $4 }' "$KOR_SCRIPTS/kernels") ||
		die "SERIES=$SERIES is not in scripts/kernels, which has: $(all_series | xargs)"
	export SERIES
}

# series_name NAME: NAME for the default series, NAME-SERIES for another.
series_name() { [ "$SERIES" = "$(default_series)" ] && echo "$1" || echo "$1-$SERIES"; }

# say MESSAGE: one progress line; standard output is kept for results (paths).
say() { printf '%s\n' "$*" >&2; }

die() { printf '%s: error: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# wrong_usage WHAT: one line, and where to read more.
wrong_usage() {
	printf '%s: error: %s; see %s --help\n' "$(basename "$0")" "$*" "$(basename "$0")" >&2
	exit 2
}

# Kbuild takes neither spaces nor colons in a path.
case $KOR_TREE$KOR_CACHE in
*[[:space:]:]*) die "a space or colon in '$KOR_TREE' or KOR_CACHE='$KOR_CACHE', which Kbuild cannot take: use another path" ;;
esac

# hash_of FILE...: the first twelve digits of a hash over names and contents.
hash_of() {
	local f
	for f in "$@"; do
		printf '%s\n' "$(basename "$f")"
		cat "$f"
	done | sha256sum | cut -c1-12
}

# step LABEL COMMAND...: run a long command with its output in a log file, with a line
# of elapsed time every 20 seconds; on failure show the end of the log and exit.
step() {
	local label=$1 log start pid rc=0 slept=0
	shift
	mkdir -p "$KOR_CACHE/log"
	log=$KOR_CACHE/log/$(printf '%s' "$label" | tr -c 'A-Za-z0-9.' '-').$$.log
	start=$SECONDS
	say "$label ..."
	"$@" >"$log" 2>&1 </dev/null &
	pid=$!
	# A killed script must not leave its long command behind.
	trap 'kill $pid 2>/dev/null; exit 130' INT TERM
	while kill -0 "$pid" 2>/dev/null; do
		sleep 0.2
		slept=$((slept + 1))
		if [ $((slept % 100)) -eq 0 ]; then
			say "  $label: $((SECONDS - start)) s"
		fi
	done
	wait "$pid" || rc=$?
	trap - INT TERM
	if [ "$rc" -ne 0 ]; then
		tail -n 25 "$log" | sed 's/^/  | /' >&2
		die "$label failed (status $rc); the whole log: $log"
	fi
	say "$label: done in $((SECONDS - start)) s"
	rm -f "$log"
}

# build_modules LABEL OUT MAKE-ARGUMENT...: build modules into OUT. Those of an earlier build go
# first: what cannot be built must not be tested.
build_modules() {
	local label=$1 out=$2
	shift 2
	mkdir -p "$out"
	find "$out" -name '*.ko' -delete
	step "modules for $label" make --no-print-directory -C "$KOR_TREE" OUT="$out" "$@"
	[ -e "$out/ko2iblnd.ko" ] || die "make says nothing is wrong, but $out has no ko2iblnd.ko: run make V=1 with the same arguments"
}

# with_lock NAME COMMAND...: run a function while nobody else holds that lock.
with_lock() {
	local name=$1
	shift
	need_root
	mkdir -p "$KOR_CACHE/lock" 2>/dev/null || die "cannot make $KOR_CACHE: set KOR_CACHE to a writable place"
	exec 9>"$KOR_CACHE/lock/$name"
	if ! flock -n 9; then
		say "waiting for another process that makes $name"
		flock 9
	fi
	"$@"
	exec 9>&-
}

need_root() {
	[ "$(id -u)" -eq 0 ] || die "must run as root: it makes a Debian root and mounts; make KDIR=TREE builds the module without"
}

need_space() {
	local gib=$1 free
	mkdir -p "$KOR_CACHE" 2>/dev/null || die "cannot make $KOR_CACHE: set KOR_CACHE to a writable place"
	free=$(df -Pk "$KOR_CACHE" | awk 'NR == 2 { print int($4 / 1048576) }')
	[ "$free" -ge "$gib" ] ||
		die "$KOR_CACHE has $free GiB free, $gib GiB are needed: set KOR_CACHE elsewhere"
}

# base_dir: where the Debian root of the series' suite is, without a kernel (or will be).
base_dir() {
	printf '%s/base-%s-%s\n' "$KOR_CACHE" "$SUITE" "$(
		hash_of "$KOR_SCRIPTS"/root/{packages,"packages.$SUITE",recipe})"
}

# root_dir: where the Debian root of the series is (or will be).
root_dir() {
	printf '%s/root-%s-%s\n' "$KOR_CACHE" "$SERIES" "$( (
		basename "$(base_dir)"
		echo "$SERIES $SUITE $ARCHIVE"
		hash_of "$KOR_SCRIPTS/root/series"
	) | sha256sum | cut -c1-12)"
}

in_kor_root() { [ -e /etc/kor-root ]; }

read_series
