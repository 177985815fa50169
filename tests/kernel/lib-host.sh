# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# The host's half of the scenario runner: networks, nodes, verdicts. Sourced by run.
# shellcheck disable=SC2154 # variables of run

# Each series of kernels has its own modules and results.
build_name=$(. "$tree/scripts/lib.sh"; series_name "$kernel")
ko=${ko:-$tree/build/$build_name}
run_base=${run_base:-$tree/build/run/$build_name}

# Anything of this on a console fails the run, whatever the scenario says.
REPORTS='BUG:|WARNING:|Oops|KASAN:|UBSAN|ODEBUG|DMA-API:|refcount_t:|general protection'
REPORTS+='|blocked for more than|[Ss]leeping function|scheduling while atomic|rcu.*stall'
REPORTS+='|locking dependency|recursive locking|inconsistent lock|bad unlock balance'
REPORTS+='|suspicious RCU|lockdep|held lock freed|possible circular|Kernel panic'
REPORTS+='|rust_kernel: panicked|soft lockup|Call Trace:|list_(add|del) corruption'
REPORTS+='|dma-check: FAILED|ko2iblnd: .* are left|Kernel memory leak detector disabled'
# What kmemleak finds is judged by the nodes (check_leaks), who know which of it is UML's own.
# What the kernel says about itself when all is well.
HARMLESS='Lock dependency validator|lockdep_stats|KernelAddressSanitizer initialized|lockdep_depth'
HARMLESS+='|lockdep_assert|MAX_LOCKDEP|per task-struct memory footprint'

# scenario_timeout FILE: its "# timeout: N" line (default 60), for slower kernels times more.
scenario_timeout() {
	local base
	base=$(sed -n 's/^# timeout: *\([0-9]*\).*/\1/p' "$1" | head -n 1)
	base=${base:-60}
	case $kernel in
	um) echo "$base" ;;
	um-debug) echo $((base * 8)) ;;
	stock) echo $((base * 8)) ;;
	esac
}

# up_veth END...: the frames carry whole checksums: nothing on the way fills them in.
up_veth() {
	local end
	for end; do
		echo 1 >"/proc/sys/net/ipv6/conf/$end/disable_ipv6" 2>/dev/null || true
		ethtool -K "$end" tx off rx off gso off gro off tso off >/dev/null 2>&1 || true
		ip link set "$end" up
	done
}

# make_veth: for each link two ends, v<link>.<node>, one for each UML node; with two legs, all on
# one switch.
make_veth() {
	local link ends end i=0
	for end in $(ip -o link | sed -n 's/^[0-9]*: \(v[0-9]\.[0-9]\|sw\)[@:].*/\1/p'); do
		ip link del "$end" >/dev/null 2>&1 || true
	done
	[ -z "$legs" ] || {
		ip link add sw mtu 9000 type bridge forward_delay 0
		up_veth sw
	}
	for link in $links; do
		ends=("v$i.${link%-*}" "v$i.${link#*-}")
		if [ -z "$legs" ]; then
			ip link add "${ends[0]}" mtu 9000 type veth peer name "${ends[1]}" mtu 9000
			up_veth "${ends[@]}"
		else
			for end in "${ends[@]}"; do
				ip link add "$end" mtu 9000 type veth peer name "s$end" mtu 9000
				ip link set "s$end" master sw
				up_veth "$end" "s$end"
			done
		fi
		i=$((i + 1))
	done
}

# ends_of NODE: the numbers of the links that it is on.
ends_of() {
	local link i=0
	for link in $links; do
		case -$link- in
		*-"$1"-*) echo $i ;;
		esac
		i=$((i + 1))
	done
}

# node_script N: the init of node N, with all it must know.
node_script() {
	local node=$1 file=$run/init.$1
	{
		printf '#!/bin/bash\n'
		printf 'export %s=%q\n' NODE "$node" NODES "$nodes" RUN "$run" KO "$ko" \
			KERNEL "$kernel" SCENARIO "$file_of_scenario" LNET "$lnet" \
			TREE "$tree" KDIR "$kdir" TIMEOUT "$limit" KOR_LNET2 "${KOR_LNET2:-}"
		printf 'exec /bin/bash %q\n' "$here/guest-init.sh"
	} >"$file"
	chmod +x "$file"
}

boot_um() {
	local node=$1 options=() link vec=0
	# The debug kernel's init dies at once with seccomp=on.
	[ "$kernel" = um-debug ] && options=(mem=1G) || options=(mem=1G seccomp=on)
	for link in $(ends_of "$node"); do
		options+=("vec$vec:transport=raw,ifname=v$link.$node,mtu=9000,mac=52:54:00:98:0$link:0$node")
		vec=$((vec + 1))
	done
	# UML puts its terminal into raw mode and its helpers share the process group.
	TMPDIR=/dev/shm setsid "$kdir/linux" "${options[@]}" root=/dev/root rootfstype=hostfs rootflags=/ rw \
		init="$run/init.$node" ncpus=1 con=null con0=null,fd:1 ssl=null umid="kor$$.$node" \
		log_buf_len=1M oops=panic panic=-1 </dev/null >>"$run/console.$node" 2>&1 &
	pids[node]=$!
}

boot_stock() {
	local node=$1 net=() link pair end
	for link in $(ends_of "$node"); do
		read -r -a pair <<<"$links"
		[ "${pair[link]%-*}" -eq "$node" ] && end=listen || end=connect
		net+=(-netdev "socket,id=net$link,$end=127.0.0.1:$((4791 + link))"
			-device "virtio-net-pci,netdev=net$link,mac=52:54:00:98:0$link:0$node")
	done
	[ -z "$judged" ] || [ "$node" -ne 1 ] ||
		net+=(-object "filter-dump,id=dump,netdev=net0,file=$run/net.pcap")
	setsid qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 1G -nodefaults -no-user-config \
		-nographic -no-reboot \
		-chardev "file,id=con,path=$run/console.$node,append=on" -serial chardev:con \
		-kernel "/usr/lib/modules/$kver/vmlinuz" -initrd "$initrd" \
		-append "console=ttyS0 loglevel=5 oops=panic panic=-1 tsc=reliable no_timer_check nokaslr mitigations=off KOR_INIT=$run/init.$node" \
		-fsdev local,id=root,path=/,security_model=none,multidevs=remap \
		-device virtio-9p-pci,fsdev=root,mount_tag=korroot \
		-fsdev "local,id=run,path=$run,security_model=none" \
		-device virtio-9p-pci,fsdev=run,mount_tag=korrun \
		"${net[@]}" \
		</dev/null >"$run/qemu.$node" 2>&1 &
	pids[node]=$!
}

# start_capture: of all RoCE frames, from before the first.
start_capture() {
	tcpdump -i v0.1 -s 0 -B 65536 -U -w "$run/net.pcap" udp port 4791 >"$run/tcpdump" 2>&1 &
	capture=$!
	while ! grep -qs 'listening on' "$run/tcpdump" && kill -0 "$capture" 2>/dev/null; do
		sleep 0.05
	done
}

# judge: the outside judge over the capture and the nodes' counters; says why not, or nothing.
judge() {
	if ! grep -q '^0 packets dropped by kernel' "$run/tcpdump" 2>/dev/null &&
		[ "$kernel" != stock ]; then
		echo "the capture is not whole: $(tail -n 1 "$run/tcpdump")"
		return
	fi
	python3 "$here/judge.py" "$run/net.pcap" "$run/stats.1" "$run/stats.2" \
		>"$run/judge" 2>&1 || echo "judge: $(tail -n 1 "$run/judge"), see $run/judge"
}

boot_nodes() {
	local node
	pids=()
	[ "$kernel" = stock ] && machine=stock || machine=um
	case $kernel in
	stock)
		kver=$(. /etc/kor-root; echo "$KVER")
		initrd=$(make_initrd "$kver")
		for ((node = 1; node <= nodes; node++)); do
			node_script "$node"
			boot_stock "$node"
			[ "$node" -eq "$nodes" ] || sleep 1	# it must listen before the next connects
		done ;;
	*)
		make_veth
		[ -z "$judged" ] || start_capture
		for ((node = 1; node <= nodes; node++)); do
			node_script "$node"
			boot_um "$node"
		done ;;
	esac
}

# make_initrd KVER: an initramfs that mounts the root over 9p with a layer in memory above it.
make_initrd() {
	local kver=$1 dir out=$tree/build/initrd-$1.cpio
	local modules='virtio_pci virtio_net 9pnet_virtio 9p overlay'
	if [ "$out" -nt "$here/initramfs-init" ] && [ "$out" -nt "$here/lib-host.sh" ]; then
		echo "$out"
		return
	fi
	dir=$(mktemp -d)
	mkdir -p "$dir"/{bin,lib/modules,proc,sys,dev,new,lower,upper} "$(dirname "$out")"
	cp /bin/busybox "$dir/bin/busybox"
	cp "$here/initramfs-init" "$dir/init"
	chmod +x "$dir/init"
	# In the order in which they must be loaded, each once.
	for module in $modules; do
		modprobe -S "$kver" --show-depends "$module" 2>/dev/null
	done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r path; do
		name=$(basename "$path")
		case $name in
		*.xz) xz -dc "$path" >"$dir/lib/modules/${name%.xz}" ;;
		*.zst) zstd -qdc "$path" >"$dir/lib/modules/${name%.zst}" ;;
		*) cp "$path" "$dir/lib/modules/$name" ;;
		esac
		name=${name%.xz}
		echo "/lib/modules/${name%.zst}" >>"$dir/modules"
	done
	(cd "$dir" && find . | cpio -o -H newc --quiet) >"$out.$$"
	mv "$out.$$" "$out"
	rm -rf "$dir"
	echo "$out"
}

# Wait until every node has ended or the time is up.
wait_nodes() {
	local node end=$((SECONDS + limit)) alive
	while :; do
		alive=
		for node in "${!pids[@]}"; do
			if ! kill -0 "${pids[node]}" 2>/dev/null && [ -e "$run/again.$node" ]; then
				rm "$run/again.$node"
				end_node "$node"
				"boot_$machine" "$node"
			fi
			kill -0 "${pids[node]}" 2>/dev/null && alive+=" $node"
		done
		[ -n "$alive" ] || return 0
		if [ "$SECONDS" -ge "$end" ]; then
			late=$alive
			return 1
		fi
		# A node that died without a word will not meet the other at a barrier.
		for node in "${!pids[@]}"; do
			kill -0 "${pids[node]}" 2>/dev/null || [ -e "$run/result.$node" ] ||
				[ -e "$run/again.$node" ] || touch "$run/failed.$node"
		done
		sleep 0.1
	done
}

# Kill what is left of a node: each is a session of its own.
end_node() {
	pkill -KILL -s "${pids[$1]}" 2>/dev/null || true
	wait "${pids[$1]}" 2>/dev/null || true
}

end_nodes() {
	local node
	for node in "${!pids[@]}"; do
		end_node "$node"
	done
	if [ -n "${capture:-}" ]; then
		kill -INT "$capture" 2>/dev/null || true
		wait "$capture" 2>/dev/null || true
		capture=
	fi
}

# since_init FILE...: what came after init's first words (all, where there are none): UML warns
# while it boots that no PCI over virtio device was given, which is how we want it. Without the stacks
# of blocked tasks that init asks for when the time is nearly up: of what is printed meanwhile, only
# lines that belong to a stack are left out, as a report may come in between.
since_init() {
	local file
	for file; do
		[ -e "$file" ] || continue
		LC_ALL=C awk '
			FNR == NR { starts += /kor-test: init/; booting = starts > 0; next }
			/kor-test: init/ { starts--; booting = stacks = 0; next }
			/^Core dump limits/ && starts > 0 { booting = 1 }
			/kor-test: late/ { stacks = 1 }
			/kor-test: end of blocked tasks/ { stacks = 0 }
			booting { next }
			stacks && /Call Trace:|task:.* state:|\+0x[0-9a-f]+\/0x[0-9a-f]+/ { next }
			{ print }' "$file" "$file" || return
	done
}

# without EXPRESSION-OPTION...: grep -v, for which nothing left is no failure.
without() { grep -av "$@" || [ $? -eq 1 ]; }

# reports_of FILE...: the first line of consoles and kernel logs that fails a run.
reports_of() {
	local allow=$run/allow.all found=$run/reports
	cat "$run"/allow.[0-9] >"$allow" 2>/dev/null || true
	since_init "$@" | { grep -aE "$REPORTS" || [ $? -eq 1 ]; } | without -E "$HARMLESS" |
		if [ -s "$allow" ]; then without -Ef "$allow"; else cat; fi >"$found" 2>&1 ||
		echo "cannot look for reports: see $found" >>"$found"
	head -n 1 "$found" | cut -c1-200
}

# verdict: nothing when the run passed, else why it failed, in one line.
verdict() {
	local node report why=
	report=$(reports_of "$run"/console.[0-9] "$run"/dmesg.[0-9])
	if [ -n "$report" ]; then
		echo "kernel report: $report"
		return
	fi
	for ((node = 1; node <= nodes; node++)); do
		if [ -e "$run/result.$node" ]; then
			why=$(cat "$run/result.$node")
			# "the other node failed" explains nothing if that one says why.
			[ "$why" = ok ] && continue
			[ "$why" = 'the other node failed' ] && continue
			echo "node $node: $why"
			return
		fi
	done
	if [ -n "${late:-}" ]; then
		echo "no end after $limit s (node$late still running)"
		return
	fi
	for ((node = 1; node <= nodes; node++)); do
		[ -e "$run/result.$node" ] || { echo "node $node died without a result"; return; }
	done
	[ -z "$why" ] || [ "$why" = ok ] || echo "$why"
}

# again NAME GIVEN: the command that runs a scenario once more, in a fresh clone, too.
again() {
	case $2 in
	*/scenarios-lnet/*) echo "scripts/test-lnet $lnet $1" ;;
	*) echo "scripts/replay scenario $kernel $2" ;;
	esac
}

run_scenario() {
	local name=$1 start why end node alone
	file_of_scenario=$here/scenarios/$name.sh
	case $name in
	*/*)
		file_of_scenario=$(realpath "$name")
		name=$(basename "$name" .sh) ;;
	esac
	start=$(date +%s%N)
	run=$run_base/$name
	late=
	if [ ! -e "$file_of_scenario" ]; then
		echo "FAIL $name: no such scenario"
		return 1
	fi
	legs=$(sed -n 's/^# two legs.*/yes/p' "$file_of_scenario" | head -n 1)
	judged=$(sed -n 's/^# judge.*/yes/p' "$file_of_scenario" | head -n 1)
	links=$(sed -n 's/^# links: *//p' "$file_of_scenario" | head -n 1)
	[ -z "$legs" ] || links='1-2 1-2'
	links=${links:-1-2}
	alone=$(sed -n 's/^# one node.*/1/p' "$file_of_scenario" | head -n 1)
	nodes=${wanted_nodes:-${alone:-$(tr ' -' '\n' <<<"$links" | sort -n | tail -n 1)}}
	limit=${timeout:-$(scenario_timeout "$file_of_scenario")}
	rm -rf "$run"
	mkdir -p "$run"
	boot_nodes
	if [ -n "$verbose" ]; then
		sleep 0.2
		tail -q -F "$run"/console.[0-9] >&2 &
		local tail=$!
	fi
	wait_nodes || true
	end_nodes
	[ -z "$verbose" ] || kill "$tail" 2>/dev/null || true
	why=$(verdict)
	[ -n "$why" ] || [ -z "$judged" ] || why=$(judge)
	end=$(date +%s%N)
	if [ -z "$why" ]; then
		printf 'PASS %s (%s s)\n' "$name" "$(((end - start) / 100000000))" |
			sed 's/(\([0-9]*\)\([0-9]\) s)/(\1.\2 s)/; s/(\./(0./'
		return 0
	fi
	printf 'FAIL %s: %s\n' "$name" "$why"
	echo "  run it again: $(again "$name" "$1")"
	for ((node = 1; node <= nodes; node++)); do
		echo "  node $node, end of console ($run/console.$node):"
		tail -n 25 "$run/console.$node" 2>/dev/null | tr -d '\r' | sed 's/^/  | /'
	done
	return 1
}
