#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# R5: which builds of LNet a module is built for: what scripts/build-id reads from modules that are
# made here, and what it refuses. Runs in the root.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
tool=$here/../../scripts/build-id
A=00112233445566778899aabbccddeeff00112233
B=ff112233445566778899aabbccddeeff00112233
passed=0 failed=0

verdict() {
	if [ "$2" = "$3" ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf 'FAIL build-id: %s: got\n%s\nnot\n%s\n' "$1" "$2" "$3"
	fi
}

# module FILE [ID]: an object with that build-id, or with none.
module() {
	mkdir -p "$(dirname "$1")"
	echo | gcc -x c -shared -nostdlib -Wl,--build-id="${2:+0x}${2:-none}" -o "$1" -
}

# prints WHAT TEXT ARGUMENT...: status 0 and that text.
prints() {
	local what=$1 text=$2 out rc=0
	shift 2
	out=$("$tool" "$@" 2>&1) || rc=$?
	verdict "$what" "$rc: $out" "0: $text"
}

# refuses WHAT TEXT ARGUMENT...: status 1, nothing on standard output, one line with that text.
refuses() {
	local what=$1 text=$2 out rc=0
	shift 2
	out=$("$tool" "$@" 2>"$tmp/err") || rc=$?
	# For the test that looks whether any error line is forgotten.
	[ -z "${KOR_SEEN:-}" ] || cat "$tmp/err" >>"$KOR_SEEN"
	verdict "$what" "$rc, $(wc -l <"$tmp/err") line, $(grep -cF "$text" "$tmp/err"), '$out'" \
		"1, 1 line, 1, ''"
}

# header NAME ID...: what the header for these modules must be.
header() {
	local entries='' name
	while [ $# -gt 0 ]; do
		name=$1
		printf 'MODULE_INFO(%s_build_id, "%s");\n' "$name" "$2"
		entries+=$(printf '\t{ "%s", "%s" },' "$name" "$2")$'\n'
		shift 2
	done
	printf 'static const struct kor_built_for kor_built_for[] = {\n%s};\n' "$entries"
}

module "$tmp/a.ko" $A
# A readelf of a user with another language.
cat >"$tmp/readelf" <<'END'
#!/bin/sh
[ "${LC_ALL:-}" = C ] || exec echo 'ID de construction'
exec readelf "$@"
END
chmod +x "$tmp/readelf"
READELF=$tmp/readelf LC_ALL=C.UTF-8 prints 'a readelf that translates' $A "$tmp/a.ko"
module "$tmp/none.ko"
echo text >"$tmp/text.ko"
prints 'a module' $A "$tmp/a.ko"
for pack in xz gzip zstd; do
	$pack -qc "$tmp/a.ko" >"$tmp/$pack.ko.${pack/gzip/gz}"
done
prints 'packed by xz' $A "$tmp/xz.ko.xz"
prints 'packed by gzip' $A "$tmp/gzip.ko.gz"
mv "$tmp/zstd.ko.zstd" "$tmp/zstd.ko.zst"
prints 'packed by zstd' $A "$tmp/zstd.ko.zst"
refuses 'no such file' "cannot read $tmp/b.ko" "$tmp/b.ko"
refuses 'no build-id' "$tmp/none.ko has no GNU build-id" "$tmp/none.ko"
refuses 'no module' "$tmp/text.ko has no GNU build-id" "$tmp/text.ko"
cp "$tmp/text.ko" "$tmp/text.ko.xz"
refuses 'not packed' "cannot unpack $tmp/text.ko.xz" "$tmp/text.ko.xz"

tree="$tmp/a tree"
mkdir "$tree"
refuses 'nothing built' "$tree has no lnet.ko" --header "$tree"
refuses 'no tree' 'no LNet to build for' --header ''
module "$tree/lnet/lnet/lnet.ko" $A
prints 'LNet without libcfs' "$(header lnet $A)" --header "$tree"
module "$tree/libcfs/libcfs/libcfs.ko" $B
prints 'LNet' "$(header lnet $A libcfs $B)" --header "$tree"
ln -s "$tree" "$tmp/link"
prints 'a link to the tree' "$(header lnet $A libcfs $B)" --header "$tmp/link"
module "$tree/stage/lnet.ko" $A
prints 'the same build twice' "$(header lnet $A libcfs $B)" --header "$tree"
module "$tree/stage/lnet.ko" $B
refuses 'two builds' 'two different builds of lnet.ko' --header "$tree"
module "$tree/stage/lnet.ko"
refuses 'one without a build-id' 'lnet.ko has no GNU build-id' --header "$tree"
module "$tmp/lnet_standin.ko" $B
prints 'the stand-in' "$(header lnet_standin $B)" --header "$tmp/lnet_standin.ko"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
