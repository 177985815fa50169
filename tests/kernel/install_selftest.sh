#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Shows that install-module puts ours before the C driver of one kernel and leaves other kernels
# alone, that uninstall brings the C driver back, what is refused, and signing: by what modprobe
# would load in a module tree made here. R5, R6: not beside another LNet or RDMA stack. Runs in the
# root.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
scripts=$here/../../scripts
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
A=7.3.4+deb13-amd64 B=7.3.40+deb13-amd64	# A, taken for a pattern, matches neither
passed=0 failed=0
unset DESTDIR INSTALL_MOD_PATH KOR_SIGN_KEY KOR_SIGN_CERT KOR_ALLOW_STANDIN

# module FILE [FIELD=VALUE...]: an object that depmod takes for a module.
module() {
	local file=$1 field
	shift
	mkdir -p "$(dirname "$file")"
	for field in license=GPL "$@"; do
		printf 'const char m%d[] __attribute__((section(".modinfo"))) = "%s";\n' $((++n)) "$field"
	done | gcc -x c -c -o "$file" -
}
n=0

# ours FILE RELEASE
ours() {
	module "$1" name=ko2iblnd 'author=The ko2iblnd-rs developers' \
		"vermagic=$2 SMP preempt mod_unload " depends=lnet,ib_core \
		lnet_build_id=$LNET_ID libcfs_build_id=$LIBCFS_ID
}

LNET_ID=00112233445566778899aabbccddeeff00112233
LIBCFS_ID=8899aabbccddeeff001122330011223344556677

# neighbour NAME ID [FIELD=VALUE...]: a module installed for kernel A, with that build-id or none.
neighbour() {
	local file=$tmp/sys/lib/modules/$A/extra/$1.ko id=$2 name=$1
	shift 2
	module "$tmp/part.o" "name=$name" "$@"
	mkdir -p "${file%/*}"
	gcc -shared -nostdlib -Wl,--build-id="${id:+0x}${id:-none}" -o "$file" "$tmp/part.o"
	depmod -b "$tmp/sys" -C "$tmp/sys/etc/depmod.d" $A
}

ok() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); echo "install_selftest: $*"; }

# same WHAT GOT WANT
same() { if [ "$2" = "$3" ]; then ok; else bad "$1: is '$2', must be '$3'"; fi; }

# loads WHAT RELEASE FILE: modprobe would load that file.
loads() {
	same "$1" "$(modprobe -d "$tmp/sys" -S "$2" --show-depends ko2iblnd | awk '{ print $2 }')" \
		"$tmp/sys/lib/modules/$2/$3"
}

# does install-module's ARGUMENTS
does() { "$scripts/install-module" "$@" >"$tmp/out" 2>&1 || bad "$*: $(cat "$tmp/out")"; }

# refused PATTERN ARGUMENTS: in one line that says so.
refused() {
	local pattern=$1 status=0
	shift
	"$scripts/install-module" "$@" >"$tmp/out" 2>"$tmp/err" || status=$?
	# For the test that looks whether any error line is forgotten.
	[ -z "${KOR_SEEN:-}" ] || cat "$tmp/err" >>"$KOR_SEEN"
	if [ $status -ne 0 ] && [ "$(wc -l <"$tmp/err")" -eq 1 ] && grep -qE "^install-module: error: .*$pattern" "$tmp/err"; then
		ok
	else
		bad "$*: status $status: $(cat "$tmp/out" "$tmp/err")"
	fi
}

for kver in $A $B; do
	mkdir -p "$tmp/kdir-$kver/include/config" "$tmp/kdir-$kver/scripts"
	echo "$kver" >"$tmp/kdir-$kver/include/config/kernel.release"
	touch "$tmp/kdir-$kver/.config"
	ours "$tmp/$kver.ko" "$kver"
done
export INSTALL_MOD_PATH=$tmp/sys

# Beside the C driver, wherever it is; one kernel after the other.
for theirs in extra/lustre updates/kernel/net/lustre; do
	rm -rf "$tmp/sys"
	for kver in $A $B; do
		module "$tmp/sys/lib/modules/$kver/$theirs/ko2iblnd.ko"
		touch "$tmp/sys/lib/modules/$kver/modules."{order,builtin,builtin.modinfo}
		depmod -b "$tmp/sys" "$kver"
		loads "the C driver alone in $theirs" "$kver" "$theirs/ko2iblnd.ko"
	done
	does install "$tmp/kdir-$A" "$tmp/$A.ko"
	loads "installed beside $theirs" $A updates/ko2iblnd-rs/ko2iblnd.ko
	depmod -b "$tmp/sys" -C "$tmp/sys/etc/depmod.d" $B
	loads "the other kernel after that" $B "$theirs/ko2iblnd.ko"
	does install "$tmp/kdir-$B" "$tmp/$B.ko"
	loads "installed for the second kernel" $B updates/ko2iblnd-rs/ko2iblnd.ko
	does uninstall "$tmp/kdir-$A"
	depmod -b "$tmp/sys" -C "$tmp/sys/etc/depmod.d" $B
	loads "uninstalled beside $theirs" $A "$theirs/ko2iblnd.ko"
	loads "the second kernel after the first one's uninstall" $B updates/ko2iblnd-rs/ko2iblnd.ko
	does uninstall $B
	loads "uninstalled by release" $B "$theirs/ko2iblnd.ko"
	same "left by uninstall" "$(find "$tmp/sys" -path '*ko2iblnd-rs*')" ''
done

# What is refused; nothing may change.
before=$(find "$tmp/sys" -type f -exec md5sum {} + | sort)
echo 'a text' >"$tmp/text.ko"
module "$tmp/other.ko" name=other
module "$tmp/theirs.ko" name=ko2iblnd 'author=Somebody else'
module "$tmp/standin.ko" name=ko2iblnd 'author=The ko2iblnd-rs developers' "vermagic=$A SMP " depends=lnet_standin,ib_core \
	lnet_standin_build_id=$LNET_ID
module "$tmp/silent.ko" name=ko2iblnd 'author=The ko2iblnd-rs developers' "vermagic=$A SMP " depends=lnet,ib_core
touch "$tmp/empty.ko"
refused "no file '$tmp/none.ko': run make" install "$tmp/kdir-$A" "$tmp/none.ko"
refused 'not a kernel module' install "$tmp/kdir-$A" "$tmp/text.ko"
refused 'not a kernel module' install "$tmp/kdir-$A" "$tmp/empty.ko"
refused "the module 'other', not ko2iblnd" install "$tmp/kdir-$A" "$tmp/other.ko"
refused "another ko2iblnd, by 'Somebody else'" install "$tmp/kdir-$A" "$tmp/theirs.ko"
refused "for kernel .*, KDIR for " install "$tmp/kdir-$A" "$tmp/$B.ko"
refused 'LNet stand-in' install "$tmp/kdir-$A" "$tmp/standin.ko"
refused 'does not say which LNet' install "$tmp/kdir-$A" "$tmp/silent.ko"
refused 'not installed for kernel' uninstall "$tmp/kdir-$A"
refused 'no kernel tree at .*, or run scripts/install-module uninstall RELEASE' uninstall "$tmp/nowhere"
refused "'' is no kernel release" uninstall ''
refused 'no kernel tree at KDIR=' install "$tmp/nowhere" "$tmp/$A.ko"
refused 'no include/config/kernel.release' install "$tmp" "$tmp/$A.ko"
refused 'install takes' install "$tmp/kdir-$A"
refused 'uninstall takes' uninstall
refused 'install or uninstall' remove
INSTALL_MOD_PATH=$tmp/empty-system refused 'is not installed: there is no' install "$tmp/kdir-$A" "$tmp/$A.ko"
INSTALL_MOD_PATH='' refused "root of the tests' cache" install "$tmp/kdir-$A" "$tmp/$A.ko"
INSTALL_MOD_PATH='' refused 'not installed for kernel' uninstall "$tmp/kdir-$A"
KOR_SIGN_KEY=$tmp/key refused 'only one of' install "$tmp/kdir-$A" "$tmp/$A.ko"
KOR_SIGN_KEY=$tmp/key KOR_SIGN_CERT=$tmp/cert refused 'cannot read KOR_SIGN_KEY' \
	install "$tmp/kdir-$A" "$tmp/$A.ko"
touch "$tmp/key"
KOR_SIGN_KEY=$tmp/key KOR_SIGN_CERT=$tmp/cert refused 'cannot read KOR_SIGN_CERT' \
	install "$tmp/kdir-$A" "$tmp/$A.ko"
touch "$tmp/cert"
KOR_SIGN_KEY=$tmp/key KOR_SIGN_CERT=$tmp/cert refused 'no scripts/sign-file' \
	install "$tmp/kdir-$A" "$tmp/$A.ko"
same 'files after refusals' "$(find "$tmp/sys" -type f -exec md5sum {} + | sort)" "$before"

# The stand-in's build, when a test asks for it.
KOR_ALLOW_STANDIN=1 does install "$tmp/kdir-$A" "$tmp/standin.ko"
does uninstall "$tmp/kdir-$A"

# DESTDIR: the two files and no more, of any kernel.
for INSTALL_MOD_PATH in '' /sysroot; do
	DESTDIR=$tmp/pack$INSTALL_MOD_PATH does install "$tmp/kdir-$A" "$tmp/$A.ko"
	same "files in DESTDIR with INSTALL_MOD_PATH='$INSTALL_MOD_PATH'" \
		"$(cd "$tmp/pack$INSTALL_MOD_PATH$INSTALL_MOD_PATH" && find . -type f | sort | tr '\n' ' ')" \
		"./etc/depmod.d/ko2iblnd-rs-$A.conf ./lib/modules/$A/updates/ko2iblnd-rs/ko2iblnd.ko "
done
INSTALL_MOD_PATH=$tmp/sys

# R5: an LNet that is absent is warned of, another build is refused; only the same one will do.
warned() { grep -c '^install-module: warning: .* is not installed for kernel' "$tmp/out" || true; }
does install "$tmp/kdir-$A" "$tmp/$A.ko"
same 'R5 warnings without LNet' "$(warned)" 2
neighbour lnet $LNET_ID
neighbour libcfs $LIBCFS_ID
does install "$tmp/kdir-$A" "$tmp/$A.ko"
same 'R5 warnings beside the right LNet' "$(cat "$tmp/out")" \
	"$tmp/sys/lib/modules/$A/updates/ko2iblnd-rs/ko2iblnd.ko"
xz "$tmp/sys/lib/modules/$A/extra/libcfs.ko"
depmod -b "$tmp/sys" -C "$tmp/sys/etc/depmod.d" $A
does install "$tmp/kdir-$A" "$tmp/$A.ko"
same 'R5 warnings beside a packed libcfs' "$(warned)" 0
does uninstall $A
neighbour lnet ${LNET_ID%3}4
refused "another build of lnet \(build-id ${LNET_ID:0:12}\) than .*/extra/lnet.ko" \
	install "$tmp/kdir-$A" "$tmp/$A.ko"
neighbour lnet ''
refused 'lnet.ko has no GNU build-id: .*; .*needs the lnet that it was built for' install "$tmp/kdir-$A" "$tmp/$A.ko"
neighbour lnet $LNET_ID
rm "$tmp/sys/lib/modules/$A/extra/libcfs.ko.xz"
neighbour libcfs $LNET_ID
refused 'another build of libcfs' install "$tmp/kdir-$A" "$tmp/$A.ko"
DESTDIR=$tmp/pack5 does install "$tmp/kdir-$A" "$tmp/$A.ko"
neighbour libcfs $LIBCFS_ID

# R6: an RDMA stack that is not the kernel's own.
for name in ib_core rdma_cm; do
	neighbour $name $LNET_ID
	refused "extra/$name.ko is of an external RDMA stack" install "$tmp/kdir-$A" "$tmp/$A.ko"
	neighbour $name $LNET_ID intree=Y
done
same 'files after the refusals of R5 and R6' "$(find "$tmp/sys" -path '*ko2iblnd-rs*')" ''
does install "$tmp/kdir-$A" "$tmp/$A.ko"
does uninstall $A

# What is installed is for all to read, whatever root's umask.
(umask 077 && does install "$tmp/kdir-$A" "$tmp/$A.ko")
same 'installed under a strict umask' "$(find "$tmp/sys" -path '*ko2iblnd-rs*' ! -perm -o=r)" ''
same 'directories made under a strict umask' "$(find "$tmp/sys" -type d ! -perm -o=rx)" ''
does uninstall $A

# A full disk leaves the module that was there.
updates=$tmp/sys/lib/modules/$A/updates
mkdir -p "$updates"
mount -t tmpfs -o size=16k none "$updates"
does install "$tmp/kdir-$A" "$tmp/$A.ko"
cp "$tmp/$A.ko" "$tmp/big.ko"
head -c 32768 /dev/zero >>"$tmp/big.ko"
refused 'cannot write .*/ko2iblnd.ko \(No space left on device\), which is as it was' \
	install "$tmp/kdir-$A" "$tmp/big.ko"
same 'after the refusal by a full disk' "$(md5sum <"$updates/ko2iblnd-rs/ko2iblnd.ko")" "$(md5sum <"$tmp/$A.ko")"
same 'left by a full disk' "$(ls "$updates/ko2iblnd-rs")" ko2iblnd.ko
umount "$updates"

# A kernel that has gone before is no reason to keep what is ours of it.
does install "$tmp/kdir-$A" "$tmp/$A.ko"
mv "$tmp/sys/lib/modules/$A" "$tmp/gone"
mkdir -p "$tmp/sys/lib/modules/$A/updates"
cp -r "$tmp/gone/updates/ko2iblnd-rs" "$tmp/sys/lib/modules/$A/updates/"
does uninstall $A
same 'left of a kernel that has gone' "$(find "$tmp/sys" -name "*$A*")" ''
touch "$tmp/sys/etc/depmod.d/ko2iblnd-rs-$A.conf"
does uninstall $A
same 'rules left of a kernel that has gone' "$(find "$tmp/sys" -name "*$A*")" ''
rm -r "$tmp/gone/updates/ko2iblnd-rs"
mv "$tmp/gone" "$tmp/sys/lib/modules/$A"

# Not beside the packages, whose files those are.
rules=$tmp/sys/usr/lib/depmod.d
mkdir -p "$rules"
does install "$tmp/kdir-$A" "$tmp/$A.ko"
touch "$rules/ko2iblnd-rs-dkms.conf"
refused 'the package ko2iblnd-rs-dkms installs ko2iblnd' install "$tmp/kdir-$A" "$tmp/$A.ko"
touch "$rules/ko2iblnd-rs-$A.conf"
refused "belongs to the package ko2iblnd-rs-modules-${A/+/.}" install "$tmp/kdir-$A" "$tmp/$A.ko"
refused "belongs to the package ko2iblnd-rs-modules-${A/+/.}" uninstall $A
DESTDIR=$tmp/pack6 does install "$tmp/kdir-$A" "$tmp/$A.ko"
rm "$rules/ko2iblnd-rs-$A.conf"
does uninstall $A
rm "$rules/ko2iblnd-rs-dkms.conf"

# Signing, by the program of a real tree.
um=$("$scripts/build-kernel" --path um)
cp "$um/scripts/sign-file" "$tmp/kdir-$A/scripts/"
echo 'CONFIG_MODULE_SIG_HASH="sha512"' >"$tmp/kdir-$A/.config"
openssl req -new -x509 -newkey rsa:2048 -nodes -days 2 -subj '/CN=self-test key/' \
	-keyout "$tmp/key" -out "$tmp/cert" 2>"$tmp/err" || bad "openssl: $(cat "$tmp/err")"
export KOR_SIGN_KEY=$tmp/key KOR_SIGN_CERT=$tmp/cert
does install "$tmp/kdir-$A" "$tmp/$A.ko"
signed=$tmp/sys/lib/modules/$A/updates/ko2iblnd-rs/ko2iblnd.ko
same signer "$(modinfo -F signer "$signed")" 'self-test key'
same 'hash of the signature' "$(modinfo -F sig_hashalgo "$signed")" sha512
same 'signer of what make made' "$(modinfo -F signer "$tmp/$A.ko")" ''
echo 'no certificate' >"$tmp/cert"
refused 'cannot sign with KOR_SIGN_KEY' install "$tmp/kdir-$A" "$tmp/$A.ko"
same 'signer after a refusal' "$(modinfo -F signer "$signed")" 'self-test key'

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
