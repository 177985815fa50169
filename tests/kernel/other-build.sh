# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Modules that are not quite the ones that ours was built for, and how ours must refuse to be
# loaded beside them. To be sourced by a scenario.

OTHER=/run/other-build

# other_build FILE: prints a copy of the module that differs in its build-id alone.
other_build() {
	local note=$OTHER/note copy=$OTHER/${1##*/}
	mkdir -p $OTHER
	objcopy -O binary --only-section=.note.gnu.build-id "$1" $note
	[ "$(stat -c %s $note)" -eq 36 ] || fail "$1 has no SHA-1 build-id"
	# The id is what follows the sizes, the type and the name.
	printf '\xde\xad' | dd of=$note bs=1 seek=16 conv=notrunc status=none
	objcopy --update-section .note.gnu.build-id=$note "$1" "$copy" || fail "cannot change $1"
	echo "$copy"
}

# without_build_id FILE: prints a copy of the module that has no build-id.
without_build_id() {
	local copy=$OTHER/${1##*/}
	mkdir -p $OTHER
	objcopy --remove-section .note.gnu.build-id "$1" "$copy" || fail "cannot change $1"
	echo "$copy"
}

our_lines() { dmesg | grep -F ' ko2iblnd: '; }

# refused_with TEXT: our module cannot be loaded, says so with ENOEXEC and in one line of the
# kernel log, with that text in it. What it printed is left in $RUN/refused.NODE.
refused_with() {
	local before after out line
	before=$(our_lines | wc -l)
	if out=$(insmod "$KO/ko2iblnd.ko" 2>&1); then
		rmmod ko2iblnd
		echo "loaded, but must not: $1"
		return 1
	fi
	after=$(our_lines | wc -l)
	line=$(our_lines | tail -n 1)
	printf '%s\n' "$out" "$line" >>"$RUN/refused.$NODE"
	[[ $out == *'Invalid module format'* ]] || { echo "not ENOEXEC: $out"; return 1; }
	[ ! -d /sys/module/ko2iblnd ] || { echo 'refused, but still there'; return 1; }
	[ $((after - before)) -eq 1 ] || { echo "$((after - before)) lines, must be 1"; return 1; }
	[[ $line == *"$1"* ]] || { echo "no \"$1\" in: $line"; return 1; }
}
