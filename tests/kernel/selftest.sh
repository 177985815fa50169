#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The runner's own test: scenarios that must fail do fail, each for its reason.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$(dirname "$(dirname "$here")")/build/selftest
rm -rf "$out"
mkdir -p "$out"
passed=0 failed=0

# must_say NAME PATTERN <SCENARIO
must_say() {
	local file=$out/$1.sh log=$out/$1.log
	cat >"$file"
	"$here/run" --run-dir "$out/run" --ko "$out" "$file" >"$log" 2>&1 || true
	if grep -qE "^$2" "$log"; then
		echo "PASS runner: $1"
		passed=$((passed + 1))
	else
		echo "FAIL runner: $1: does not say \"$2\""
		sed 's/^/  | /' "$log"
		failed=$((failed + 1))
	fi
}

must_say passes 'PASS passes' <<'END'
sync_point here
END
must_say fails 'FAIL fails: node 2: meant to fail' <<'END'
node_is 2 && fail "meant to fail"
sync_point never
END
must_say ends-early 'FAIL ends-early: node 1: status 3 in scenario' <<'END'
node_is 1 && exit 3
sync_point never
END
must_say reports 'FAIL reports: kernel report: .*BUG: of the self-test' <<'END'
node_is 1 && echo "BUG: of the self-test" >/dev/kmsg
sync_point here
END
must_say allowed 'PASS allowed' <<'END'
allow_report 'BUG: of the self-test'
node_is 1 && echo "BUG: of the self-test" >/dev/kmsg
sync_point here
END
must_say hangs 'FAIL hangs: no end after 6 s \(node 1 2 still running\)' <<'END'
# timeout: 6
node_is 2 && sleep 1000
sync_point never 1000
END
# What the stacks of blocked tasks print is no report, but one that comes then counts. The parent of
# a vfork(2) is blocked as long as its child.
must_say blocked 'PASS blocked' <<'END'
perl -e 'syscall(58) or sleep 30' &
blocked() { show_blocked; dmesg | grep -A 5 'task:perl' | grep -q 'Call Trace:'; }
wait_for 10 blocked
sync_point here
END
must_say late-report 'FAIL late-report: kernel report: .*BUG: of the self-test' <<'END'
show_blocked
node_is 1 && echo "BUG: of the self-test" >/dev/kmsg
sync_point here
END
must_say crashes 'FAIL crashes: kernel report: Kernel panic' <<'END'
sync_point here
node_is 2 && echo c >/proc/sysrq-trigger
sync_point never
END
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
