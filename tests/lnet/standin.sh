# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# The LNet stand-in's debugfs commands, for scenarios; see tests/lnet/README.md.

SI=/sys/kernel/debug/lnet_standin

# si COMMAND...: run a command of the stand-in, print its result ("rc=-errno" last), and succeed
# when it did. Several may run at a time: each has a result of its own.
si() {
	local fd line rc=0
	exec {fd}<>$SI/cmd
	printf '%s' "$*" 1>&"$fd" 2>/dev/null || rc=1
	# no process more than needed: they are slow on the debug kernel
	while read -r line <&"$fd"; do
		printf '%s\n' "$line"
	done
	exec {fd}>&-
	return $rc
}

# si_value KEY: the value of KEY in the KEY=VALUE words on standard input.
si_value() {
	local word words found=
	while read -ra words; do
		for word in "${words[@]}"; do
			case $word in "$1="*) found=${found:-${word#*=}} ;; esac
		done
	done
	printf '%s\n' "$found"
}

# si_check NAME / si_stat NAME: one count of debugfs' checks or stats.
si_check() { si_value "$1" <$SI/checks; }
si_stat() { si_value "$1" <$SI/stats; }

# How many messages the other node's sinks must have verified since: its sink_ok.
SI_PUTS=0

# si_row LABEL COMMAND...: run a put, get or ping and make a line of the demo's table of it.
si_row() {
	local label=$1 out ok=0 put=no
	shift
	case " $* " in *" drop=1 "*) ;; " put "*) put=yes ;; esac
	out=$(si "$@") || ok=1
	set -- "$(si_value size <<<"$out")" "$(si_value count <<<"$out")" \
		"$(si_value kib_per_s <<<"$out")" "$(si_value p50_us <<<"$out")" \
		"$(si_value p99_us <<<"$out")" "$(si_value errors <<<"$out")"
	row "$label" "$1" "$2" "$(awk -v k="$3" 'BEGIN { printf "%.1f", k / 1024 }')" "$4" "$5" "$6"
	[ "$put" = no ] || SI_PUTS=$((SI_PUTS + $(si_value ok <<<"$out")))
	[ $ok -eq 0 ] || echo "$out"
	return $ok
}

# si_clean: no check counted anything.
si_clean() {
	[ "$(si_check total)" = 0 ] || { grep -v '=0$' $SI/checks; return 1; }
}

# si_count MESSAGES SIZE: fewer messages of the large sizes.
si_count() {
	local n=$(($2 > 300000 ? $1 / 10 : $2 > 30000 ? $1 / 3 : $1))
	echo $((n > 2 ? n : 3))
}

# si_demo NID MESSAGES: every kind of message to NID, verified on both ends, a row each. Fails
# when one did not end as it should; all are tried.
si_demo() {
	local nid=$1 max=$2 size n bad=0
	si_row ping ping "$nid" count="$max" || bad=1
	for size in 0 1 3976 3977 4096 65536 1048576; do
		n=$(si_count "$max" $size)
		si_row put put "$nid" size=$size count="$n" conc=4 || bad=1
		si_row put+ack put "$nid" size=$size count="$n" conc=4 ack=1 || bad=1
		si_row get get "$nid" size=$size count="$n" conc=4 || bad=1
	done
	for size in 1 3976 3977 4096 65536 1048576; do
		n=$(si_count "$max" $size)
		si_row put+ack,unaligned put "$nid" size=$size count="$n" conc=4 ack=1 \
			off=1001 soff=2003 style=scatter sstyle=scatter || bad=1
		si_row get,unaligned get "$nid" size=$size count="$n" conc=4 \
			off=3003 soff=5 style=scatter sstyle=scatter || bad=1
	done
	for size in 100 4096 65536 1048576; do
		si_row put,dropped put "$nid" size=$size count=5 conc=5 drop=1 || bad=1
		si_row get,no-match get "$nid" size=$size count=5 conc=5 nomatch=1 || bad=1
	done
	return $bad
}
