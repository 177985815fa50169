#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The scripts' own test: a build, a tool or a test that fails makes the run fail, and a module of an
# earlier build is not tested. On a copy of the scripts, where what takes time is a stub.
#
# usage: ci_selftest.sh [TREE]     test the scripts of that tree, in place of this one
set -euo pipefail
# What scripts/test, which starts this, has set for itself is not for the copy.
unset SERIES SUITE ARCHIVE KNOWN KDIR LNET KERNEL KOR_BIND KOR_DEADLINE KOR_TEST_LIMIT KOR_MIRROR
from=$(realpath "${1:-$(dirname "$0")/..}")
box=$(mktemp -d)
trap 'rm -rf "$box"' EXIT
copy=$box/tree
passed=0 failed=0

# stub FILE: what comes on standard input becomes that program.
stub() {
	mkdir -p "$(dirname "$1")"
	{ echo '#!/bin/bash'; cat; } >"$1"
	chmod +x "$1"
}

# A fresh copy with all stubs in order. What they do wrong is asked for in the environment.
fresh_copy() {
	rm -rf "${box:?}"/*
	mkdir -p "$copy/tests/host" "$copy/Documentation" "$box/cache"
	cp -r "$from/scripts" "$copy"
	cp -r "$from/tests/kernel" "$copy/tests"
	stub "$copy/scripts/setup-root" <<<'echo /'
	stub "$copy/scripts/in-root" <<<'[ "$1" != -n ] || shift; exec "$@"'
	stub "$copy/scripts/build-kernel" <<<"[ -z \"\${STUB_KERNEL:-}\" ] || exit 1; echo $box/kernel"
	stub "$copy/scripts/check-style" <<<'echo "1 passed, 0 failed"; exit ${STUB_STYLE:-0}'
	stub "$copy/tests/packages/run" <<<'echo "1 passed, 0 failed"; exit ${STUB_PACKAGES:-0}'
	mkdir -p "$box/kernel/include/config"
	echo 1.0 >"$box/kernel/include/config/kernel.release"
	touch "$box/kernel/.config"
	stub "$box/bin/make" <<'END'
for arg; do case $arg in OUT=*) out=${arg#OUT=} ;; esac; done
case ${STUB_MAKE:-} in
fail) echo 'stub.c:1: error: as asked for' >&2; exit 2 ;;
nothing) exit 0 ;;
warn) echo 'stub.c:1: warning: as asked for' >&2 ;;
esac
echo new >"$out/ko2iblnd.ko"
END
	stub "$box/bin/cargo" <<'END'
[ -z "${STUB_HANGS:-}" ] || sleep 1000.5
echo 'test result: ok. 3 passed; 0 failed; 0 ignored'
exit "${STUB_CARGO:-0}"
END
	# It says what it was given to test.
	stub "$copy/tests/kernel/run" <<END
while [ \$# -gt 0 ]; do case \$1 in --ko) ko=\$2; shift ;; esac; shift; done
cat "\${ko:-$copy/build/um}/ko2iblnd.ko" >>"$box/tested"
echo '2 passed, 0 failed'
exit \${STUB_RUN:-0}
END
	while read -r file; do
		stub "$file" <<-'END'
			case ${0##*/} in
			"${STUB_CRASHES:-}") exit 3 ;;
			"${STUB_SILENT:-}") exit 0 ;;
			esac
			echo '2 passed, 0 failed'
		END
	done < <(selftests)
	stub "$box/bin/python3" <<<'exec bash "$@"'
}

# selftests: those that the judge suite starts.
selftests() {
	sed -n '/^judge_suite/,/^}/s,.*"$tests/\([^"]*selftest[^"]*\)".*,\1,p' "$from/scripts/test" |
		sed "s,^,$copy/tests/,"
}

# check WHAT CONDITION...
check() {
	local what=$1
	shift
	if "$@"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAIL scripts: $what (not true: $*)"
		sed 's/^/  | /' "$box/log"
	fi
}

# try COMMAND...: run it with the stubs; its status into status, what it says into the log.
try() {
	status=0
	env PATH="$box/bin:$PATH" KOR_CACHE="$box/cache" timeout -k 1 120 "$@" >"$box/log" 2>&1 \
		</dev/null || status=$?
}

says() { grep -qE "$1" "$box/log"; }
last_line() { [[ $(tail -n 1 "$box/log") =~ $1 ]]; }
# It failed by itself, not at the limit above.
fails() { [ "$status" -ne 0 ] && [ "$status" -ne 124 ] && [ "$status" -ne 137 ]; }
passes() { [ "$status" -eq 0 ]; }
not_tested() { [ ! -e "$box/tested" ]; }
tested() { [ "$(cat "$box/tested")" = "$1" ]; }
gone() { [ ! -e "$1" ]; }

# --- scripts/test, demo, test-lnet --------------------------------------------------------------

suites_pass() {
	fresh_copy
	try "$copy/scripts/test"
	check 'all suites pass' passes
	check 'all suites are counted' last_line '^[1-9][0-9]* passed, 0 failed$'
	check 'the modules just built are tested' tested $'new\nnew\nnew'
}

build_fails() {
	local kernel old
	for kernel in um um-debug stock; do
		fresh_copy
		old=$copy/build/test-$kernel/ko2iblnd.ko
		mkdir -p "$(dirname "$old")"
		echo old >"$old"
		try env STUB_MAKE=fail "$copy/scripts/test" "$kernel"
		check "$kernel: the build fails" fails
		check "$kernel: the build fails: which" says "^FAIL suite $kernel"
		check "$kernel: the build fails: its own words" says 'error: as asked for'
		check "$kernel: the build fails: not tested" not_tested
		check "$kernel: the build fails: no old module is left" gone "$old"
		check "$kernel: the build fails: counted" last_line '^0 passed, 1 failed$'
		fresh_copy
		mkdir -p "$(dirname "$old")"
		echo old >"$old"
		try env STUB_MAKE=nothing "$copy/scripts/test" "$kernel"
		check "$kernel: the build makes nothing" fails
		check "$kernel: the build makes nothing: not tested" not_tested
		fresh_copy
		try env STUB_KERNEL=1 "$copy/scripts/test" "$kernel"
		check "$kernel: no kernel" fails
		check "$kernel: no kernel: not tested" not_tested
		fresh_copy
		try env STUB_RUN=1 "$copy/scripts/test" "$kernel"
		check "$kernel: the runner fails and counts nothing" last_line '^2 passed, 1 failed$'
		fresh_copy
		rm "$copy"/tests/kernel/scenarios/*
		try "$copy/scripts/test" "$kernel"
		check "$kernel: no scenario" fails
	done
}

demo_build_fails() {
	fresh_copy
	mkdir -p "$copy/build/um"
	echo old >"$copy/build/um/ko2iblnd.ko"
	try env STUB_MAKE=fail "$copy/scripts/demo"
	check 'demo: the build fails' fails
	check 'demo: the build fails: not tested' not_tested
	check 'demo: the build fails: no old module is left' gone "$copy/build/um/ko2iblnd.ko"
}

test_lnet_build_fails() {
	fresh_copy
	mkdir -p "$copy/build/lnet-um" "$box/lustre"
	echo old >"$copy/build/lnet-um/ko2iblnd.ko"
	touch "$box/lustre/"{Module.symvers,config.h,lnetctl}
	printf 'vermagic=1.0 mod_unload\0' >"$box/lustre/lnet.ko"
	try env STUB_MAKE=fail "$copy/scripts/test-lnet" "$box/lustre"
	check 'test-lnet: the build fails' fails
	check 'test-lnet: the build fails: its own words' says 'error: as asked for'
	check 'test-lnet: the build fails: not tested' not_tested
	check 'test-lnet: the build fails: no old module is left' gone "$copy/build/lnet-um/ko2iblnd.ko"
}

tool_fails() {
	fresh_copy
	try env STUB_CARGO=101 "$copy/scripts/test" host
	check 'host: cargo fails and counts nothing' last_line '^3 passed, 1 failed$'
	check 'host: cargo fails and counts nothing: which' says '^FAIL suite host: .* status 101'
	try env STUB_STYLE=2 "$copy/scripts/test" style
	check 'style: fails and counts nothing' last_line '^1 passed, 1 failed$'
	try env STUB_PACKAGES=2 "$copy/scripts/test" packages
	check 'packages: fails and counts nothing' last_line '^1 passed, 1 failed$'
	try env STUB_CARGO=101 "$copy/scripts/test" host style
	check 'one of two suites fails' fails
	check 'one of two suites fails: the other runs' last_line '^4 passed, 1 failed$'
}

no_end() {
	fresh_copy
	try env STUB_HANGS=1 KOR_TEST_LIMIT=1 "$copy/scripts/test" host style
	check 'host: no end' fails
	check 'host: no end: a line' says '^FAIL suite host: no end after 1 s'
	check 'host: no end: the next suite runs' last_line '^1 passed, 1 failed$'
	check 'host: no end: nothing is left running' soon not_running
}
# The stub's argument, which nothing else in the machine has.
running() { grep -qszx '1000[.]5' /proc/[0-9]*/cmdline; }
not_running() { ! running; }
# soon CONDITION...: in half a minute.
soon() {
	local i
	for ((i = 0; i < 300; i++)); do
		"$@" && return
		sleep 0.1
	done
	return 1
}

killed() {
	local pid
	fresh_copy
	env PATH="$box/bin:$PATH" KOR_CACHE="$box/cache" STUB_HANGS=1 "$copy/scripts/test" host \
		>"$box/log" 2>&1 </dev/null &
	pid=$!
	check 'killed: it was running' soon running
	kill -TERM "$pid"
	wait "$pid" || true
	check 'killed: nothing is left running' soon not_running
}

selftest_fails() {
	local file name count
	count=$(selftests | wc -l)
	# Each is started by the suite, or by another self-test.
	while read -r file; do
		check "judge: $file is run" grep -qrF --include='test' --include='*selftest.*' \
			--exclude="$file" "/$file" "$from/scripts/test" "$from/tests"
	done < <(find "$from/tests" -name '*selftest.*' -not -path '*/scenarios/*' -printf '%f\n')
	while read -r file; do
		name=$(basename "$file")
		fresh_copy
		try env STUB_CRASHES="$name" "$copy/scripts/test" judge
		check "judge: $name crashes" fails
		check "judge: $name crashes: counted" \
			last_line "^$(((count - 1) * 2)) passed, 1 failed\$"
		check "judge: $name crashes: which" says '^FAIL self-test .*status 3'
		try env STUB_SILENT="$name" "$copy/scripts/test" judge
		check "judge: $name runs nothing" \
			last_line "^$(((count - 1) * 2)) passed, 1 failed\$"
	done < <(selftests)
}

# --- scripts/check-style ------------------------------------------------------------------------

style_copy() {
	local tool
	fresh_copy
	cp "$from/scripts/check-style" "$copy/scripts"
	mkdir -p "$box/kernel/scripts" "$copy/rust"
	touch "$box/kernel/scripts/checkpatch.pl" "$copy/rust/a.rs" "$copy/rust/a.c"
	for tool in git rustfmt cargo make perl shellcheck; do
		stub "$box/bin/$tool" <<-'END'
			name=${0##*/}
			[ "$name" != perl ] || [ -e "$1" ] || exit 2
			case ${STUB_TOOL:-} in
			"$name fails") exit 3 ;;
			"$name speaks") echo 'a.rs:1: WARNING: as asked for' ;;
			"$name names nothing") exit 0 ;;
			esac
			[ "$name" != git ] || printf '%s\n' rust/a.rs rust/a.c scripts/lib.sh
			for arg; do case $arg in OUT=*) mkdir -p "${arg#OUT=}"; touch "${arg#OUT=}/ko2iblnd_main.o" ;; esac; done
		END
	done
}

# style_fails WHAT CHECK ENVIRONMENT: that check fails, and others are not counted as failed.
style_fails() {
	try env ${3:+"$3"} "$copy/scripts/check-style" "$2"
	check "style: $1" fails
	check "style: $1: counted" last_line '^0 passed, 1 failed$'
}

style() {
	style_copy
	try "$copy/scripts/check-style"
	check 'style: all is well' passes
	check 'style: all is well: counted' last_line '^[4-9] passed, 0 failed$'
	style_fails 'rustfmt crashes' rustfmt 'STUB_TOOL=rustfmt fails'
	style_fails 'rustfmt finds something' rustfmt 'STUB_TOOL=rustfmt speaks'
	style_fails 'cargo clippy crashes' host-clippy 'STUB_TOOL=cargo fails'
	style_fails 'cargo clippy finds something' host-clippy 'STUB_TOOL=cargo speaks'
	style_fails 'make clippy fails' module-clippy 'STUB_TOOL=make fails'
	style_fails 'make clippy compiles nothing' module-clippy 'STUB_TOOL=make names nothing'
	style_fails 'no kernel for clippy' module-clippy STUB_KERNEL=1
	style_fails 'perl crashes' checkpatch 'STUB_TOOL=perl fails'
	style_fails 'checkpatch finds something' checkpatch 'STUB_TOOL=perl speaks'
	style_fails 'no kernel for checkpatch' checkpatch STUB_KERNEL=1
	style_fails 'shellcheck crashes' shellcheck 'STUB_TOOL=shellcheck fails'
	style_fails 'shellcheck finds something' shellcheck 'STUB_TOOL=shellcheck speaks'
	style_fails 'git fails (shellcheck)' shellcheck 'STUB_TOOL=git fails'
	style_fails 'git fails (rustfmt)' rustfmt 'STUB_TOOL=git fails'
	style_fails 'git fails (checkpatch)' checkpatch 'STUB_TOOL=git fails'
	style_fails 'git names no file' rustfmt 'STUB_TOOL=git names nothing'
	rm "$box/kernel/scripts/checkpatch.pl"
	style_fails 'no checkpatch.pl' checkpatch
}

# --- scripts/prove ------------------------------------------------------------------------------

prove_copy() {
	fresh_copy
	touch "$copy/tests/host/history.txt"
	echo table >"$copy/Documentation/state-table.md"
	echo bugs >"$copy/Documentation/known-bugs.md"
	stub "$box/bin/cargo" <<-'END'
		[ -z "${KOR_TABLE:-}" ] || {
			[ -z "${STUB_CHANGED:-}" ] || printf 'table\nanother cell\n' >"$KOR_TABLE"
			[ -n "${STUB_SILENT:-}" ] || echo "covered: stub: 5 cells"
		}
		exit "${STUB_CARGO:-0}"
	END
	stub "$box/bin/python3" <<-'END'
		[ -n "${STUB_SILENT:-}" ] || echo '5 entries'
		{ echo bugs; [ -z "${STUB_CHANGED:-}" ] || echo 'another bug'; } >"${@: -1}"
		exit "${STUB_PYTHON:-0}"
	END
}

# page_is FILE PATTERN
page_is() {
	# shellcheck disable=SC2053
	[[ $(cat "$copy/Documentation/$1") = $2 ]]
}

prove_pages() {
	local step page old
	for step in history:known-bugs.md:bugs table:state-table.md:table; do
		IFS=: read -r step page old <<<"$step"
		prove_copy
		try "$copy/scripts/prove" "$step"
		check "prove $step: all is well" passes
		try env STUB_CHANGED=1 "$copy/scripts/prove" "$step"
		check "prove $step: another page" fails
		check "prove $step: another page: it is not replaced" page_is "$page" "$old"
		try env STUB_SILENT=1 "$copy/scripts/prove" "$step"
		check "prove $step: no figure" fails
		try env STUB_CARGO=101 "$copy/scripts/prove" "$step"
		check "prove $step: the tests fail" fails
		try env STUB_CHANGED=1 "$copy/scripts/prove" "$step-update"
		check "prove $step-update: passes" passes
		check "prove $step-update: the page is replaced" page_is "$page" "$old"$'\n''another*'
		try env STUB_CHANGED=1 "$copy/scripts/prove" "$step"
		check "prove $step: the page that was made" passes
	done
	prove_copy
	try env STUB_PYTHON=1 "$copy/scripts/prove" history
	check 'prove history: history.py fails' fails
}

# --- the runner's verdict -----------------------------------------------------------------------

# console LINE...: the verdict on a run whose nodes said ok, with these lines on the console.
console() {
	mkdir -p "$box/run"
	printf '%s\n' 'Core dump limits :' 'WARNING: of the boot' 'kor-test: init of node 1' "$@" \
		>"$box/run/console.1"
	echo ok >"$box/run/result.1"
	# shellcheck disable=SC2034 # for lib-host.sh
	(
		run=$box/run nodes=1 kernel=um ko=$box late='' here=$copy/tests/kernel
		tree=$copy
		# shellcheck source=tests/kernel/lib-host.sh
		. "$copy/tests/kernel/lib-host.sh"
		verdict
	) >"$box/log" 2>&1
}
is_reported() { says "^kernel report: .*$1"; }
no_report() { [ ! -s "$box/log" ]; }

reports() {
	local late='kor-test: late, blocked tasks of node 1:' end='kor-test: end of blocked tasks'
	local stack=('sysrq: Show Blocked State' 'task:lockdep state:D stack:0 pid:9' 'Call Trace:'
		' [<600>] ? lockdep_x+0x1/0x2')
	fresh_copy
	console 'all is well'
	check 'verdict: all is well' no_report
	console 'BUG: early'
	check 'verdict: a report' is_reported 'BUG: early'
	console "$late" "${stack[@]}" "$end" 'BUG: late'
	check 'verdict: a report at the end' is_reported 'BUG: late'
	console "$late" "${stack[@]}" 'BUG: late' "${stack[@]}" "$end"
	check 'verdict: a report among the stacks of blocked tasks' is_reported 'BUG: late'
	console "$late" "${stack[@]}" "$end" 'all is well'
	check 'verdict: stacks of blocked tasks' no_report
	console "$late" "${stack[@]}"
	check 'verdict: stacks of blocked tasks, broken off' no_report
	console "$late" "${stack[@]}" "$end" 'Call Trace:'
	check 'verdict: a stack after those of blocked tasks' is_reported 'Call Trace'
	console 'Core dump limits :' 'WARNING: of the boot' 'kor-test: init of node 1' 'all is well'
	check 'verdict: a second start' no_report
	console "$late" "$end" 'Core dump limits :' 'kor-test: init of node 1' 'BUG: late'
	check 'verdict: a report after a second start' is_reported 'BUG: late'
	console 'Core dump limits :' 'Kernel panic'
	check 'verdict: no second start' is_reported 'Kernel panic'
	console 'kmemleak: Kernel memory leak detector disabled'
	check 'verdict: kmemleak goes off' is_reported 'kmemleak'
	echo 'BUG: allowed' >"$box/run/allow.1"
	console 'BUG: allowed'
	check 'verdict: an allowed report' no_report
	echo '(' >"$box/run/allow.1"
	console 'BUG: early'
	check 'verdict: an expression that is none allows nothing' is_reported ''
	echo 'nothing' >"$box/run/allow.1"
	mkdir "$box/run/console.2"
	console 'all is well'
	check 'verdict: a console that cannot be read' is_reported ''
}

# leak_check OPTION: the nodes' check, with a kmemleak on a file system mounted with that option.
leak_check() {
	rm -rf "$box/run"
	mkdir -p "$box/run"
	try env NODE=1 NODES=1 RUN="$box/run" KO="$box" KERNEL=um-debug SCENARIO= LNET= TREE="$copy" \
		unshare -m --propagation private bash -euc '
			mount -t tmpfs tmpfs /sys/kernel
			mkdir /sys/kernel/debug
			[ "$1" = none ] || touch /sys/kernel/debug/kmemleak
			[ "$1" != ro ] || mount -o remount,ro /sys/kernel
			sleep() { :; }
			export -f sleep
			bash "$2/tests/kernel/guest-init.sh" part check_leaks' leak "$1" "$copy"
}

leaks() {
	fresh_copy
	leak_check rw
	check 'leaks: none' passes
	leak_check ro
	check 'leaks: a kmemleak that does not scan' fails
	check 'leaks: a kmemleak that does not scan: which' says 'FAIL: kmemleak does not scan'
	leak_check none
	check 'leaks: no kmemleak' fails
}

# --- scripts/test-kernels, .ci/run --------------------------------------------------------------

# A copy with a table of three series, whose scenarios pass.
kernels_copy() {
	fresh_copy
	printf '%s\n' '# a table' '1.2 suite suite -' '1.1 suite suite -' 'testing moving moving 1.3-known' \
		>"$copy/scripts/kernels"
	stub "$copy/scripts/setup-root" <<'END'
[ "$SERIES" != "${STUB_GONE:-}" ] || exit 3
mkdir -p "$KOR_CACHE/root-$SERIES/etc"
echo "KVER=${STUB_RELEASE:-1.3-known}" >"$KOR_CACHE/root-$SERIES/etc/kor-root"
echo "$KOR_CACHE/root-$SERIES"
END
	stub "$copy/tests/kernel/run" <<END
cat "$copy/build/kernels/\$SERIES/ko2iblnd.ko" >>"$box/tested"
for name in boot ping demo; do
	[ \$name != "\${STUB_FAILS:-}" ] || { echo "FAIL \$name: as asked for"; continue; }
	echo "PASS \$name"
done
exit \${STUB_RUN:-0}
END
}

test_kernels() {
	kernels_copy
	try "$copy/scripts/test-kernels"
	check 'kernels: all pass' passes
	check 'kernels: all are counted' last_line '^12 passed, 0 failed$'
	check 'kernels: the modules just built are tested' tested $'new\nnew\nnew'
	try "$copy/scripts/test-kernels" --others
	check 'kernels: the others' last_line '^8 passed, 0 failed$'
	for what in STUB_FAILS=ping STUB_RUN=1; do
		kernels_copy
		try env $what "$copy/scripts/test-kernels" 1.1
		check "kernels: $what" fails
		check "kernels: $what: counted" last_line '^[34] passed, 1 failed$'
	done
	for what in STUB_MAKE=fail STUB_MAKE=nothing STUB_MAKE=warn STUB_KERNEL=1; do
		kernels_copy
		mkdir -p "$copy/build/kernels/1.1"
		echo old >"$copy/build/kernels/1.1/ko2iblnd.ko"
		try env $what "$copy/scripts/test-kernels" 1.1
		check "kernels: $what" fails
		check "kernels: $what: counted" last_line '^0 passed, 1 failed$'
		check "kernels: $what: not tested" not_tested
	done
	kernels_copy
	try env STUB_GONE=1.1 "$copy/scripts/test-kernels"
	check 'kernels: a series has left' passes
	check 'kernels: a series has left: a line' says '^GONE 1[.]1: '
	check 'kernels: a series has left: the others go on' last_line '^8 passed, 0 failed$'
	try env STUB_FAILS=ping "$copy/scripts/test-kernels" testing
	check 'kernels: the release known good fails' fails
	try env STUB_FAILS=ping STUB_RELEASE=1.4 "$copy/scripts/test-kernels" testing
	check 'kernels: another release fails: no failure' passes
	check 'kernels: another release fails: a line' says '^WARN testing: .* it is 1[.]4, '
	check 'kernels: another release fails: what passed counts' last_line '^3 passed, 0 failed$'
	try env KOR_DEADLINE="$(date +%s)" "$copy/scripts/test-kernels" 1.1 testing
	check 'kernels: no time is left' passes
	check 'kernels: no time is left: a line' says '^SKIP 1[.]1: '
	check 'kernels: no time is left: nothing is counted' last_line '^0 passed, 0 failed$'
}

ci_run() {
	fresh_copy
	mkdir -p "$copy/.ci"
	cp "$from/.ci/run" "$copy/.ci"
	stub "$box/bin/make" <<<'[ -n "${STUB_CRASH:-}" ] || echo "5 passed, ${STUB_BAD:-0} failed"
		exit $((${STUB_BAD:-0} + ${STUB_CRASH:-0}))'
	stub "$copy/scripts/test-kernels" <<<'echo "3 passed, 0 failed"; exit ${STUB_KERNELS:-0}'
	try "$copy/.ci/run"
	check 'ci: passes' passes
	check 'ci: the sum' last_line '^8 passed, 0 failed$'
	check 'ci: one line of totals' [ "$(grep -c ' passed, ' "$box/log")" -eq 1 ]
	try env STUB_BAD=2 "$copy/.ci/run"
	check 'ci: a test fails' fails
	check 'ci: a test fails: the sum' last_line '^8 passed, 2 failed$'
	try env STUB_CRASH=2 "$copy/.ci/run"
	check 'ci: the tests crash' fails
	check 'ci: the tests crash: the sum' last_line '^3 passed, 1 failed$'
	try env STUB_KERNELS=1 "$copy/.ci/run"
	check 'ci: test-kernels fails and counts nothing' fails
	check 'ci: test-kernels fails and counts nothing: the sum' last_line '^8 passed, 1 failed$'
}

parts=(suites_pass build_fails demo_build_fails test_lnet_build_fails tool_fails no_end
	killed selftest_fails style prove_pages reports leaks
	test_kernels ci_run)
for part in "${parts[@]}"; do
	"$part"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
