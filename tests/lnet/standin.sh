# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# The LNet stand-in's debugfs commands, for scenarios; see tests/lnet/README.md.

SI=/sys/kernel/debug/lnet_standin

# si COMMAND...: run a command of the stand-in, print its result ("rc=-errno" last), and succeed
# when it did. Several may run at a time: each has a result of its own.
si() {
	local fd rc=0
	exec {fd}<>$SI/cmd
	printf '%s' "$*" 2>/dev/null >&"$fd" || rc=1
	cat <&"$fd"
	exec {fd}>&-
	return $rc
}

# si_value KEY: the value of KEY in the KEY=VALUE words on standard input.
si_value() { tr -s ' ' '\n' | awk -F= -v key="$1" '$1 == key { print $2; exit }'; }

# si_check NAME / si_stat NAME: one count of debugfs' checks or stats.
si_check() { si_value "$1" <$SI/checks; }
si_stat() { si_value "$1" <$SI/stats; }

# si_row LABEL COMMAND...: run a put, get or ping and make a line of the demo's table of it.
si_row() {
	local label=$1 out ok=0
	shift
	out=$(si "$@") || ok=1
	set -- "$(si_value size <<<"$out")" "$(si_value count <<<"$out")" \
		"$(si_value kib_per_s <<<"$out")" "$(si_value p50_us <<<"$out")" \
		"$(si_value p99_us <<<"$out")" "$(si_value errors <<<"$out")"
	row "$label" "$1" "$2" "$(awk -v k="$3" 'BEGIN { printf "%.1f", k / 1024 }')" "$4" "$5" "$6"
	[ $ok -eq 0 ] || echo "$out"
	return $ok
}
