#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What a newcomer gets wrong, and what it says: each error of the Makefile and of the scripts is
# provoked, in trees made here, and must be one line that says what is wrong and what to do, with an
# exit status other than 0. An error line in the sources that nothing here provokes fails, too.
# shellcheck disable=SC2016 # of the stubs
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source_tree=$(dirname "$here")
tmp=$(mktemp -d)
trap 'rm -rf --one-file-system "$tmp"' EXIT
chmod 755 "$tmp"
passed=0 failed=0
unset KDIR LNET OUT DESTDIR INSTALL_MOD_PATH KOR_SIGN_KEY KOR_SIGN_CERT RUSTC BINDGEN MAKEFLAGS MAKELEVEL
export KOR_CACHE=$tmp/cache

ok() { passed=$((passed + 1)); }
bad() {
	failed=$((failed + 1))
	echo "FAIL first steps: $*"
}

# Of shells and tools, not of ours.
NOISE='line [0-9]+:|unbound variable|Permission denied|command not found|fatal:|[Ss]yntax error|Unterminated'

# said PATTERN STATUS COMMAND...: what is in $tmp/err is one line, besides make's own last words, and
# says PATTERN.
said() {
	local pattern=$1 status=$2 lines
	shift 2
	lines=$(grep -vE '^make(\[[0-9]+\])?: \*\*\* \[.*\] Error [0-9]+$' "$tmp/err" || true)
	printf '%s\n' "$lines" >>"$tmp/seen"
	if [ "$status" -eq 0 ]; then
		bad "$*: exit status 0"
	elif [ "$(wc -l <<<"$lines")" -ne 1 ]; then
		bad "$*: not one line:"$'\n'"$lines"
	elif grep -qE "$NOISE" <<<"$lines"; then
		bad "$*: noise of a tool: $lines"
	elif ! grep -qE -- "$pattern" <<<"$lines"; then
		bad "$*: does not say '$pattern': $lines"
	else
		ok
	fi
}

# refused PATTERN COMMAND...
refused() {
	local pattern=$1 status=0
	shift
	"$@" >"$tmp/out" 2>"$tmp/err" </dev/null || status=$?
	said "$pattern" $status "$@"
}

# ends PATTERN COMMAND...: after lines of progress, or of a tool that failed.
ends() {
	local pattern=$1 status=0
	shift
	"$@" >"$tmp/out" 2>"$tmp/all" </dev/null || status=$?
	tail -n 1 "$tmp/all" >"$tmp/err"
	said "$pattern" $status "$@"
}

# accepted COMMAND...
accepted() {
	if "$@" >"$tmp/out" 2>&1 </dev/null; then ok; else bad "$*: $(cat "$tmp/out")"; fi
}

as_nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }

# library COMMAND...: with the functions of lib.sh, in the name of the script "library".
library() {
	bash -c '. "$1/scripts/lib.sh"; shift; "$@"' "library" "$tree" "$@"
}

# stub NAME [COMMAND]: a program in $tmp/bin that does COMMAND.
stub() {
	printf '#!/bin/bash\n%s\n' "${2:-:}" >"$tmp/bin/$1"
	chmod +x "$tmp/bin/$1"
}

# bare_path: $tmp/path has what every script needs, and no more.
bare_path() {
	local program
	rm -rf "$tmp/path"
	mkdir "$tmp/path"
	for program in bash sh env cat sed grep head tail cut sort tr awk dirname basename realpath id nproc date \
		rm mkdir mktemp mv cp find sha256sum sleep wc setpriv flock xargs stat expr touch chmod; do
		ln -sf "$(command -v "$program")" "$tmp/path/$program"
	done
}

copy_tree() {
	local dir=$1
	mkdir -p "$dir/tests"
	cp -r "$source_tree"/{Makefile,Kbuild,VERSION,scripts,include,rust,debian} "$dir/"
	cp -r "$source_tree/tests/"{kernel,lnet} "$dir/tests/"
}

RUSTC_IS='rustc 1.85.1 (4eb161250 2025-03-15) (built from a source tarball)'

# kernel_tree: a new $kdir that looks prepared, and the tools that made it in $tmp/bin.
kernel_tree() {
	local file
	kdir=$tmp/kdir
	rm -rf "$kdir" "${tmp:?}/bin"
	mkdir -p "$tmp/bin" "$kdir"/{include/config,include/generated,rust/zerocopy,scripts/basic,scripts/mod,arch/x86}
	cat >"$kdir/.config" <<-END
		CONFIG_MODULES=y
		CONFIG_RUST=y
		CONFIG_KALLSYMS=y
		CONFIG_INFINIBAND_ADDR_TRANS=y
		CONFIG_OBJTOOL=y
		CONFIG_CC_VERSION_TEXT="kernel-gcc (Debian 14.2.0-19) 14.2.0"
		CONFIG_RUSTC_VERSION_TEXT="$RUSTC_IS"
	END
	echo 7.3.4-test >"$kdir/include/config/kernel.release"
	for file in include/config/auto.conf include/generated/autoconf.h rust/lib{compiler_builtins,ffi}.rmeta \
		rust/lib{build_error,pin_init,bindings,uapi,kernel,zerocopy}.rmeta scripts/target.json \
		rust/lib{macros,pin_init_internal,zerocopy_derive}.so Module.symvers; do
		echo something >"$kdir/$file"
	done
	printf 'rust\0\0\0\011\0\0\0\0A%s\021more' "$RUSTC_IS" >"$kdir/rust/libcore.rmeta"
	echo 'KBUILD_RUSTFLAGS += --target=$(objtree)/scripts/target.json' >"$kdir/arch/x86/Makefile"
	echo 'echo 0.71.1' >"$kdir/scripts/min-tool-version.sh"
	mkdir -p "$kdir/tools/objtool"
	for file in scripts/basic/fixdep scripts/mod/modpost tools/objtool/objtool; do
		echo : >"$kdir/$file"
		chmod +x "$kdir/$file"
	done
	stub rustc "echo '$RUSTC_IS'"
	stub bindgen 'echo bindgen 0.72.0'
	stub kernel-gcc
}

check_kdir() { env PATH="$tmp/bin:$PATH" "$tree/scripts/check-kdir" "$kdir"; }

# without FILE PATTERN: the kernel tree without that file.
without() {
	kernel_tree
	rm "$kdir/$1"
	refused "${2:-$1}" check_kdir
}

# configured SED-SCRIPT PATTERN: the kernel tree with its configuration edited.
configured() {
	kernel_tree
	sed -i "$1" "$kdir/.config"
	refused "$2" check_kdir
}

test_check_kdir() {
	local file
	kernel_tree
	accepted check_kdir
	refused 'no kernel tree given; see' "$tree/scripts/check-kdir"
	refused 'no kernel tree at KDIR=/nowhere: make one with' "$tree/scripts/check-kdir" /nowhere
	without .config 'not there or not readable'
	for file in include/config/kernel.release include/config/auto.conf include/generated/autoconf.h \
		rust/libcore.rmeta rust/lib{compiler_builtins,ffi,build_error,pin_init,bindings,uapi,zerocopy}.rmeta \
		rust/lib{macros,pin_init_internal,zerocopy_derive}.so Module.symvers scripts/target.json \
		scripts/basic/fixdep scripts/mod/modpost tools/objtool/objtool; do
		without "$file" "has no $file .*make the tree anew"
	done
	without rust/libkernel.rmeta "no Rust metadata .* Debian's header packages: make a tree"
	kernel_tree
	: >"$kdir/rust/libbindings.rmeta"
	refused 'has no rust/libbindings.rmeta' check_kdir
	kernel_tree
	chmod -x "$kdir/scripts/mod/modpost"
	refused 'modpost cannot be run' check_kdir
	configured /MODULES=/d CONFIG_MODULES
	configured /RUST=/d 'without Rust'
	configured '$aCONFIG_MODVERSIONS=y' CONFIG_MODVERSIONS
	configured /KALLSYMS=/d CONFIG_KALLSYMS
	configured /ADDR_TRANS/d CONFIG_INFINIBAND_ADDR_TRANS
	configured 's/kernel-gcc/other-gcc/' 'no other-gcc in PATH'
	configured 's/1\.85\.1/1.86.0/' 'were built by rustc 1.85.1 .*, its kernel by rustc 1.86.0'
	kernel_tree
	echo nothing >"$kdir/rust/libcore.rmeta"
	refused 'was not written by rustc' check_kdir
	stub_rustc() { kernel_tree; stub rustc "$1"; }
	stub_rustc "echo 'rustc 1.91.0 (ab 2025-10-28)'"
	refused 'was built by rustc 1.85.1 .*, rustc here is rustc 1.91.0' check_kdir
	stub_rustc 'exit 1'
	refused 'rustc does not run: install rustc 1.85.1' check_kdir
	kernel_tree
	rm "$tmp/bin/rustc"
	bare_path
	PATH=$tmp/path refused "no rustc in PATH: install the kernel's own compiler" check_kdir
	kernel_tree
	rm "$tmp/bin/bindgen"
	bare_path
	PATH=$tmp/path refused 'no bindgen in PATH' check_kdir
	kernel_tree
	stub bindgen 'exit 1'
	refused 'bindgen does not run' check_kdir
	stub bindgen 'echo bindgen 0.65.1'
	refused 'here is 0.65.1, the kernel of .* wants 0.71.1 or later' check_kdir
}

# mk ARGUMENT...: make in the copy of the tree, with the kernel tree's tools.
mk() { env PATH="$tmp/bin:$PATH" make --no-print-directory -C "$tree" "$@"; }

test_makefile() {
	local lnet=$tmp/lnet
	kernel_tree
	accepted mk KDIR="$kdir" check-kdir
	accepted as_nobody env PATH="$tmp/bin:$PATH" make --no-print-directory -C "$tree" KDIR="$kdir" \
		OUT="$tmp/nobody/out" check-kdir
	refused 'no kernel tree at KDIR=/nowhere: make one' mk KDIR=/nowhere
	refused 'not readable: KDIR must name' mk KDIR=/tmp
	refused 'KDIR "/a b" has a space' mk KDIR='/a b'
	refused 'KDIR "/a:b" has a space or one of' mk KDIR=/a:b
	refused "LNET \"/it's\" has a space or one of" mk LNET="/it's"
	refused 'OUT "a b" has a space' mk OUT='a b'
	refused 'DESTDIR "/a b" has a space' mk DESTDIR='/a b' install
	rm "$kdir/rust/libkernel.rmeta"
	refused "no Rust metadata .* Debian's header packages" mk KDIR="$kdir"
	kernel_tree
	refused 'cannot write to OUT=/proc/x: give OUT=' mk KDIR="$kdir" OUT=/proc/x
	refused 'cannot write to OUT=.*: give OUT=' as_nobody env PATH="$tmp/bin:$PATH" \
		make --no-print-directory -C "$tree" KDIR="$kdir"
	refused 'no directory LNET=/nowhere' mk KDIR="$kdir" LNET=/nowhere check-lnet
	mkdir -p "$lnet"
	refused 'has no config.h' mk KDIR="$kdir" LNET="$lnet" check-lnet
	touch "$lnet/config.h"
	refused 'has no Module.symvers' mk KDIR="$kdir" LNET="$lnet" check-lnet
	touch "$lnet/Module.symvers"
	refused 'has no lnet.ko' mk KDIR="$kdir" LNET="$lnet"
	refused 'install needs LNET=' mk KDIR="$kdir" install
	refused 'test-lnet needs LNET=' mk test-lnet
	refused 'no kernel tree at KDIR=.*: scripts/build-kernel makes' mk KDIR="$KOR_CACHE/nothing"
	mkdir -p "$KOR_CACHE/kernel"
	refused 'in the cache, whose compilers only root' as_nobody make --no-print-directory -C "$tree" \
		KOR_CACHE="$KOR_CACHE" KDIR="$KOR_CACHE/kernel"
	refused "no kernel 'nothing'; see demo --help" mk demo KERNEL=nothing
	rm -rf "$KOR_CACHE"
}

test_spaces() {
	local spaced="$tmp/a tree"
	copy_tree "$spaced"
	refused 'the directory ".*/a tree" has a space' make --no-print-directory -C "$spaced"
	refused 'a space or colon in' "$spaced/scripts/demo"
	KOR_CACHE="$tmp/a cache" refused 'KOR_CACHE=.*, which Kbuild cannot take' "$tree/scripts/build-kernel" um
}

test_not_root() {
	local script
	chmod 755 "$tree"
	for script in setup-root 'build-kernel um' 'in-root true' demo test; do
		# shellcheck disable=SC2086
		refused 'must run as root' as_nobody env KOR_CACHE="$tmp/nobody/cache" "$tree"/scripts/$script
		[ ! -e "$tmp/nobody/cache" ] || bad "$script: wrote before it was refused"
	done
	refused 'must run as root: it boots nodes' as_nobody "$tree/tests/kernel/run" boot
}

test_lib() {
	mkdir -p "$tmp/bin"
	refused 'cannot make /proc/x: set KOR_CACHE' env KOR_CACHE=/proc/x bash -c \
		". '$tree/scripts/lib.sh'; need_space 1" library
	refused 'cannot make /proc/x: set KOR_CACHE' env KOR_CACHE=/proc/x bash -c \
		". '$tree/scripts/lib.sh'; with_lock thing true" library
	refused 'GiB free, 1000000 GiB are needed' library need_space 1000000
	ends 'long job failed \(status 1\); the whole log: ' library step 'long job' false
	stub make
	ends 'has no ko2iblnd.ko: run make V=1' env PATH="$tmp/bin:$PATH" bash -c \
		". '$tree/scripts/lib.sh'; build_modules um '$tmp/built'" library
}

test_usage() {
	refused "no option '--what'; see setup-root" "$tree/scripts/setup-root" --what
	refused 'which kernel\?; see build-kernel' "$tree/scripts/build-kernel"
	refused "no kernel 'what'; see build-kernel" "$tree/scripts/build-kernel" what
	refused 'no command; see in-root' "$tree/scripts/in-root"
	refused "no option '--what'; see in-root" "$tree/scripts/in-root" --what
	refused "no suite 'what'; see test" "$tree/scripts/test" what
	refused "no kernel 'what'; see demo" "$tree/scripts/demo" what
	refused "no option '--what'; see test-kernels" "$tree/scripts/test-kernels" --what
	refused 'SERIES=1.2 is not in scripts/kernels, which has: 7' env SERIES=1.2 "$tree/scripts/demo"
}

test_run() {
	local option run=$tree/tests/kernel/run
	refused 'no scenario; see run --help' "$run"
	for option in --kernel --ko --lnet --tree --timeout --run-dir --nodes; do
		refused "$option needs a value" "$run" boot $option
	done
	refused "no kernel 'what'" "$run" --kernel what boot
	refused "no option '--what'" "$run" --what boot
	refused "--timeout takes a number, not 'soon'" "$run" --timeout soon boot
	refused "--nodes takes a number, not '0'" "$run" --nodes 0 boot
	refused 'no directory /nowhere: --ko' "$run" --ko /nowhere boot
	refused 'no scenario bot: tests/kernel/scenarios has .*boot' "$run" bot
	# A cat that shows small buffers, which nobody can raise.
	mkdir -p "$tmp/bin"
	stub cat 'echo 1'
	refused 'cannot raise net.core.rmem_max' unshare -m bash -c \
		"mount --bind -o ro /proc/sys /proc/sys; PATH=$tmp/bin:\$PATH exec '$run' --tree '$tmp' boot"
}

# A copy of the scripts whose helpers are stubs.
test_demo() {
	local dir=$tmp/demo
	mkdir -p "$tmp/bin" "$dir/tests/kernel"
	cp -r "$tree/scripts" "$dir/"
	rm -f "$tmp/bin/"*
	stub make "mkdir -p '$dir/build/um'; touch '$dir/build/um/ko2iblnd.ko'"
	printf '#!/bin/bash\necho /nowhere\n' >"$dir/scripts/build-kernel"
	printf '#!/bin/bash\nexit 1\n' >"$dir/tests/kernel/run"
	chmod +x "$dir/tests/kernel/run"
	ends 'the demo failed, see above' env PATH="$tmp/bin:$PATH" "$dir/scripts/demo"
	bare_path
	refused 'no make: install the package make' env PATH="$tmp/path" "$dir/scripts/demo"
	refused 'no make: install the package make' env PATH="$tmp/path" "$dir/scripts/test-kernels"
}

test_scenarios() {
	local dir=$tmp/scenarios
	mkdir -p "$tmp/bin" "$dir/tests/kernel/scenarios"
	cp -r "$tree/scripts" "$dir/"
	echo '# kernels: stock' >"$dir/tests/kernel/scenarios/other.sh"
	stub make "mkdir -p '$dir/build/test-um'; touch '$dir/build/test-um/ko2iblnd.ko'"
	printf '#!/bin/bash\necho /nowhere\n' | tee "$dir/scripts/build-kernel" >"$dir/scripts/setup-root"
	ends 'no scenario for um in' env PATH="$tmp/bin:$PATH" "$dir/scripts/test" --suite um
}

test_setup_root() {
	mkdir -p "$tmp/bin"
	rm -f "$tmp/bin/"*
	stub dpkg-query
	stub df 'echo; echo 0 0 0 99999999999'
	bare_path
	refused 'needs debootstrap .*, and there is no apt-get here' \
		env PATH="$tmp/bin:$tmp/path" "$tree/scripts/setup-root"
	stub dpkg-query 'echo install ok installed'
	stub debootstrap 'for dir; do case $dir in *.part) mkdir -p $dir/etc/apt/apt.conf.d $dir/usr/sbin \
		$dir/proc $dir/dev $dir/tmp; echo deb / x >$dir/etc/apt/sources.list ;; esac; done'
	stub unshare
	ends 'the root was not finished: look into' env PATH="$tmp/bin:$PATH" "$tree/scripts/setup-root"
	rm -rf "$KOR_CACHE"
}

# rust_kdir ARGUMENT...: debian-rust-kdir where /usr/src is ours.
rust_kdir() {
	unshare -m bash -c 'mount --bind "$1" /usr/src; PATH=$2:$PATH; shift 2; exec "$@"' kdir "$tmp/src" \
		"$tmp/bin" "$tree/scripts/debian-rust-kdir" --kernel 7.3.4+test --output "$tmp/made" "$@"
}

# rust_sources: what debian-rust-kdir finds at its best, with stubs for tools.
rust_sources() {
	local tool headers=$tmp/src/linux-headers-7.3.4+test
	rm -rf "$tmp/src" "${tmp:?}/bin"
	mkdir -p "$headers" "$tmp/bin" "$tmp/sysroot/lib/rustlib/src/rust/library/core/src"
	touch "$headers/Module.symvers" "$tmp/src/linux-source-7.3.tar.xz" \
		"$tmp/sysroot/lib/rustlib/src/rust/library/core/src/lib.rs"
	printf 'CONFIG_%s\n' RUST=y "RUSTC_VERSION_TEXT=\"$RUSTC_IS\"" 'CC_VERSION_TEXT="kernel-gcc 14"' MODULE_SIG=y \
		>"$headers/.config"
	config=$headers/.config
	for tool in flex bison bc pahole xz bindgen kernel-gcc; do stub $tool; done
	stub rustc "case \$1 in --version) echo '$RUSTC_IS' ;; *) echo '$tmp/sysroot' ;; esac"
	stub tar 'mkdir -p $2/scripts $2/rust $2/include/config; printf "#!/bin/sh\n" >$2/scripts/config
		chmod +x $2/scripts/config; echo 7.3.4+test >$2/include/config/kernel.release
		echo x >$2/rust/libkernel.rmeta; cp $2/scripts/config $2/scripts/sign-file'
	stub make 'case $* in *kernelversion) echo 7.3.4 ;; *rustavailable) echo "*** tool is old"; exit 1 ;; esac'
}

# rust_refused PATTERN PROGRAM [COMMAND]: with that stub, or without that program of $tmp/bin.
rust_refused() {
	rust_sources
	if [ $# -eq 3 ]; then stub "$2" "$3"; else rm "$2"; fi
	ends "$1" rust_kdir
	[ ! -e "$tmp/made" ] || bad "$1: made a tree"
}

test_rust_kdir() {
	local kdir_script=$tree/scripts/debian-rust-kdir
	refused '--kernel needs a value; see' "$kdir_script" --kernel
	refused "no option '--what'" "$kdir_script" --what
	refused 'a space or colon in' "$kdir_script" --output '/a b'
	refused "--jobs takes a number, not 'all'" "$kdir_script" --jobs all
	refused "--jobs takes a number, not '0'" "$kdir_script" --jobs 0
	rust_sources
	accepted rust_kdir
	refused 'exists already: remove it' rust_kdir
	rm -rf "$tmp/made"
	accepted rust_kdir --output "$tmp/made/"
	[ -e "$tmp/made/rust/libkernel.rmeta" ] || bad 'a slash behind --output: the tree is elsewhere'
	rm -rf "$tmp/made"
	chmod -R a+rX "$tmp"
	refused 'cannot write to .*: run as root' as_nobody "$kdir_script" --output /proc/x
	rust_refused 'no headers of this kernel: install linux-headers-7.3.4\+test' "$tmp/src/linux-headers-7.3.4+test/Module.symvers"
	rust_refused 'no kernel source .*: install linux-source-7.3' "$tmp/src/linux-source-7.3.tar.xz"
	rust_sources
	sed -i /RUST=/d "$config"
	refused 'was built without Rust' rust_kdir
	rust_sources
	echo CONFIG_MODVERSIONS=y >>"$config"
	refused 'has CONFIG_MODVERSIONS' rust_kdir
	rust_refused 'no kernel-gcc: install the package that has it' "$tmp/bin/kernel-gcc"
	rust_refused 'here is rustc 9, and symbols would differ' rustc "echo rustc 9"
	rust_refused 'rustc does not run: install rustc 1.85.1' rustc 'exit 1'
	rust_refused 'no gelf.h: install libelf-dev' kernel-gcc 'exit 1'
	rust_refused 'cannot unpack .*: make room there \(2 GB\), or reinstall linux-source-7.3' tar 'exit 2'
	rust_refused 'make olddefconfig failed' make 'case $* in *kernelversion) echo 7.3.4 ;; *) exit 2 ;; esac'
	rust_refused 'make prepare failed: mend what' make \
		'case $* in *kernelversion) echo 7.3.4 ;; *prepare) echo no tool >&2; exit 2 ;; esac'
	rust_refused 'install rust-src' "$tmp/sysroot/lib/rustlib/src/rust/library/core/src/lib.rs"
	rust_refused 'is of 7.3.5, the kernel of 7.3.4' make 'echo 7.3.5'
	rust_sources
	stub make 'case $* in *kernelversion) echo 7.3.4 ;; *rustavailable) echo "*** tool is old"; exit 1 ;;
		*olddefconfig) : >$3/.config ;; esac'
	ends 'CONFIG_RUST went off, .*: tool is old' rust_kdir
	local made='mkdir -p $2/scripts $2/rust $2/include/config; printf "#!/bin/sh\n" >$2/scripts/config
		chmod +x $2/scripts/config; '
	rust_refused 'the tree says it is 7.3.4, not 7.3.4\+test' tar "$made"'echo 7.3.4 >$2/include/config/kernel.release'
	made+='echo 7.3.4+test >$2/include/config/kernel.release; '
	rust_refused 'no rust/libkernel.rmeta was made' tar "$made"
	rust_refused 'no scripts/sign-file was made' tar "$made"'echo x >$2/rust/libkernel.rmeta'
}

test_modules_package() {
	local package=$tree/debian/modules-package lnet=$tmp/package-lnet
	kernel_tree
	mkdir -p "$lnet"
	touch "$lnet/config.h" "$lnet/Module.symvers"
	refused "--kdir needs a value; see" "$package" --kdir
	refused "no option '--what'; see" "$package" --what
	refused '--kdir and --lnet are both needed' "$package" --kdir "$kdir"
	refused 'is no prepared kernel tree: make one' "$package" --kdir /nowhere --lnet "$lnet"
	refused 'cannot write to /nowhere: give a directory' "$package" --kdir "$kdir" --lnet "$lnet" --output /nowhere
	# Paths are those of the caller, not of the source.
	cd "$tmp"
	PATH=$tmp/bin:$PATH refused "$lnet has no lnet.ko" "$package" --kdir kdir --lnet package-lnet
	cd "$OLDPWD"
	bare_path
	PATH=$tmp/path refused 'no dpkg-deb: packages are made on Debian' "$package" --kdir "$kdir" --lnet "$lnet"
}

# The scripts that have tests of their own, whose totals are printed, too.
test_others() {
	local name seen=$source_tree/build/first_steps.seen
	mkdir -p "$source_tree/build"
	rm -f "$seen"
	for name in "$here/kernel/install_selftest.sh" "$here/kernel/build_id_selftest.sh"; do
		env -u KOR_CACHE KOR_SEEN="$seen" "$source_tree/scripts/in-root" "$name" || bad "${name##*/} failed"
	done
	KOR_SEEN=$seen "$here/kernel/testlnet_selftest.sh" || bad 'testlnet_selftest.sh failed'
	cat "$seen" >>"$tmp/seen"
}

# For those who work on the project.
test_contributors() {
	local objects=$tmp/objects
	refused 'no tests/host/plants/what.patch: name one' "$tree/scripts/plants" what
	refused "'x1' is no seed: give" "$tree/scripts/replay" seed x1
	refused "'what' is no kernel: give um" "$tree/scripts/replay" scenario what ping
	refused "no check 'what'; see check-style" "$tree/scripts/check-style" what
	refused 'build the module first' "$tree/scripts/rustdoc" "$objects" "$tmp/doc"
	mkdir -p "$objects/rust"
	echo 'savedcmd_x := gcc' >"$objects/rust/.ko2iblnd.o.cmd"
	refused 'does not call rustc: delete' "$tree/scripts/rustdoc" "$objects" "$tmp/doc"
	refused 'run this in a clone' "$tree/scripts/check-style" --one rustfmt
	mkdir -p "$tmp/bin"
	stub git
	refused 'names no file .*: give check-style a whole clone' \
		env PATH="$tmp/bin:$PATH" "$tree/scripts/check-style" --one rustfmt
	rm "$tmp/bin/git"
}

# A runner that fails with nothing to show for it.
test_lnet_runner() {
	local dir=$tmp/lnet-runner lustre=$tmp/lustre
	mkdir -p "$tmp/bin" "$dir/tests/kernel/scenarios-lnet" "$lustre" "$tmp/lnet-kdir/include/config"
	cp -r "$tree/scripts" "$dir/"
	touch "$dir/tests/kernel/scenarios-lnet/one.sh" "$tmp/lnet-kdir/.config" \
		"$lustre/"{Module.symvers,config.h,lnetctl}
	printf 'vermagic=7.3.9 mod_unload \0' >"$lustre/lnet.ko"
	echo 7.3.9 >"$tmp/lnet-kdir/include/config/kernel.release"
	stub make "mkdir -p '$dir/build/lnet-um'; touch '$dir/build/lnet-um/ko2iblnd.ko'"
	stub python3
	printf '#!/bin/bash\necho %s\n' "$tmp/lnet-kdir" >"$dir/scripts/build-kernel"
	printf '#!/bin/bash\nexit 3\n' >"$dir/tests/kernel/run"
	chmod +x "$dir/tests/kernel/run"
	ends 'the scenarios ended with status 3, though none of their items failed: see' \
		env PATH="$tmp/bin:$PATH" "$dir/scripts/test-lnet" "$lustre"
}

# What the root has not: no tools, no rights, a cache from outside.
test_install() {
	local install=$tree/scripts/install-module cached=$KOR_CACHE/kernel-test
	mkdir -p "$cached/include/config" "$tmp/system/lib/modules/7.3.4-test" "$tmp/bin"
	echo 7.3.4-test >"$cached/include/config/kernel.release"
	refused "of the tests' cache: give INSTALL_MOD_PATH= or DESTDIR=" "$install" install "$cached" "$tmp/x.ko"
	INSTALL_MOD_PATH=/ refused 'give a directory of its own' "$install" install "$cached" "$tmp/x.ko"
	INSTALL_MOD_PATH=/usr refused 'give a directory of its own' "$install" install "$cached" "$tmp/x.ko"
	cp -r "$cached" "$tmp/plain-kdir"
	bare_path
	PATH=$tmp/path refused 'no modinfo: install the package kmod' "$install" install "$tmp/plain-kdir" "$tmp/x.ko"
	rm -f "$tmp/bin/"*
	stub modinfo
	stub depmod
	cp "$tmp/bin/modinfo" "$tmp/bin/depmod" "$tmp/path/"
	PATH=$tmp/path refused 'no readelf: install the package binutils' "$install" install "$tmp/plain-kdir" "$tmp/x.ko"
	refused 'cannot write to .*: run as root, or give DESTDIR=' as_nobody env PATH="$tmp/bin:$PATH" \
		INSTALL_MOD_PATH="$tmp/system" "$install" install "$tmp/plain-kdir" "$tmp/x.ko"
	# A module by what modinfo says of it.
	stub modinfo 'case $2 in name) echo ko2iblnd ;; author) echo The ko2iblnd-rs developers ;;
		vermagic) echo 7.3.4-test SMP ;; depends) echo lnet ;;
		lnet_build_id) echo 0123456789abcdef ;; esac'
	printf '\177ELF' >"$tmp/x.ko"
	stub depmod 'exit 1'
	ends 'depmod failed for 7.3.4-test: run depmod' env PATH="$tmp/bin:$PATH" \
		INSTALL_MOD_PATH="$tmp/system" "$install" install "$tmp/plain-kdir" "$tmp/x.ko"
	mkdir "$tmp/plain-kdir/scripts"
	touch "$tmp/plain-kdir/.config"
	cp "$tmp/bin/depmod" "$tmp/plain-kdir/scripts/sign-file"
	echo '#!/bin/sh' >"$tmp/plain-kdir/scripts/sign-file"
	ends 'sign-file left no signature' env PATH="$tmp/bin:$PATH" INSTALL_MOD_PATH="$tmp/system" \
		KOR_SIGN_KEY="$tmp/x.ko" KOR_SIGN_CERT="$tmp/x.ko" "$install" install "$tmp/plain-kdir" "$tmp/x.ko"
	rm -rf "$KOR_CACHE"
}

# A tree of the real cache: its root is not touched, whatever is installed with it.
test_cached_root() {
	local work=$source_tree/build/first-steps kdir root kver module
	unset KOR_CACHE SERIES
	kdir=$("$source_tree/scripts/build-kernel" --path um)
	root=$("$source_tree/scripts/setup-root" --path)
	kver=$(cat "$kdir/include/config/kernel.release")
	rm -rf "$work"
	mkdir -p "$work/system/lib/modules/$kver"
	for module in name=ko2iblnd 'author=The ko2iblnd-rs developers' "vermagic=$kver" depends=lnet lnet_build_id=00; do
		echo "const char m_${module%%=*}[] __attribute__((section(\".modinfo\"))) = \"$module\";"
	done >"$work/module.c"
	"$source_tree/scripts/in-root" gcc -c -o "$work/x.ko" "$work/module.c"
	touch "$work/stamp"
	export INSTALL_MOD_PATH=$work/system
	accepted "$source_tree/scripts/install-module" install "$kdir" "$work/x.ko"
	[ -e "$work/system/lib/modules/$kver/updates/ko2iblnd-rs/ko2iblnd.ko" ] || bad 'not installed from a tree of the cache'
	accepted "$source_tree/scripts/install-module" uninstall "$kdir"
	[ -z "$(find "$root/usr/lib/modules" "$root/etc/depmod.d" -newer "$work/stamp")" ] || bad 'the cached root was changed'
	unset INSTALL_MOD_PATH
	refused "of the tests' cache" "$source_tree/scripts/install-module" install "$kdir" "$work/x.ko"
	refused 'this is the root of .*: leave it for SERIES=7.2' \
		"$source_tree/scripts/in-root" env SERIES=7.2 "$source_tree/scripts/in-root" true
	rm -rf "$work"
	export KOR_CACHE=$tmp/cache
}

tree=$tmp/tree
copy_tree "$tree"
mkdir "$tmp/nobody"
chown 65534:65534 "$tmp/nobody"
: >"$tmp/seen"
for name in check_kdir makefile spaces not_root lib usage run demo scenarios setup_root rust_kdir modules_package install cached_root contributors lnet_runner others; do
	"test_$name"
done
if unseen=$(env -u KOR_CACHE "$source_tree/scripts/in-root" python3 "$here/error_lines.py" \
	"$source_tree/Makefile" "$source_tree"/scripts/{lib.sh,setup-root,build-kernel,in-root,demo,test,test-kernels} \
	"$source_tree"/scripts/{check-kdir,debian-rust-kdir,install-module,build-id,test-lnet} \
	"$source_tree"/scripts/{plants,replay,rustdoc,check-style} \
	"$source_tree/debian/modules-package" "$source_tree/tests/kernel/run" \
	<"$tmp/seen"); then ok; else bad "$unseen"; fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
