#!/bin/bash
# Runs the workloads over all peers on loopback, repeated and interleaved, and
# prints a table for each. README.md has the peers and the workloads.
#
# usage: run.sh [-r repeats] [-t seconds] [-c algorithm] [-p same|split] [-o results] [word...]
#   word   a workload (pingpong, oneway, mux, sockets) or a peer; none means all
#   -c     TCP congestion control, in a network namespace of its own (root)
#   -p     pin both processes to CPU 0, or the server to 0 and the client to 1;
#          pingpong is pinned to the same by default
#   -o     append the result lines to this file too
set -u
args=("$@")
repeats=3 seconds=2 cc= pin= results=
while getopts r:t:c:p:o: f; do
	case $f in
	r) repeats=$OPTARG ;;
	t) seconds=$OPTARG ;;
	c) cc=$OPTARG ;;
	p) pin=$OPTARG ;;
	o) results=$OPTARG ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))

if [ -n "$cc" ] && [ -z "${BENCH_NS:-}" ]; then
	BENCH_NS=1 exec unshare -n "$0" "${args[@]}"
fi
if [ -n "$cc" ]; then
	ip link set lo up && sysctl -qw "net.ipv4.tcp_congestion_control=$cc" || exit 1
fi
with_me="setpriv --pdeathsig KILL" # a server does not outlive this script
[ "$(ulimit -n)" -ge 20000 ] || ulimit -n 20000 || echo "run.sh: sockets needs 20000 descriptors" >&2

here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d) out=$tmp/results pids=()
stop() { # ends what this shell started
	for p in "${pids[@]}"; do kill "$p" 2>/dev/null; done
	for p in "${pids[@]}"; do wait "$p" 2>/dev/null; done
	pids=()
}
trap 'stop; rm -rf "$tmp"' EXIT
trap 'exit 1' INT TERM

echo "building" >&2
(cd "$here" && go build -o "$tmp/benchmarks" .) || exit 1
gcc -O2 -Wno-unused-function -o "$tmp/zmq" "$here/c/zmq.c" -lzmq 2>"$tmp/log" ||
	echo "run.sh: zmq is left out (libzmq3-dev): $(head -1 "$tmp/log")" >&2

plan() { # workload, size, peers
	cat <<-END
		pingpong 64 tcp tcpmux gnet grpc grpc-st nats zmq rds
		oneway 64 tcp tcp-1w tcpmux gnet grpc-st nats zmq rds rds-batch
		oneway 1024 tcp tcpmux gnet zmq rds rds-batch
		oneway 8192 tcp tcpmux gnet grpc-st nats zmq rds rds-batch
		oneway 65536 tcp tcpmux gnet zmq rds
		oneway 1048576 tcp tcpmux gnet zmq rds
		mux 256 tcp tcpmux gnet grpc grpc-st nats zmq zmq-1 rds
		sockets 64 tcp tcpmux gnet grpc-st nats zmq rds
	END
}

words=("$@")
want() { # is this workload, or this peer, among the words?
	local kind=$1 x=$2 w any=0
	for w in "${words[@]}"; do
		case $w in pingpong | oneway | mux | sockets) [ $kind = w ] && any=1 ;; *) [ $kind = p ] && any=1 ;; esac
		[ "$w" = "$x" ] && return 0
	done
	[ $any = 0 ]
}
for w in "${words[@]}"; do
	plan | grep -qE "(^| )$w( |\$)" || { echo "run.sh: no workload or peer $w" >&2 && exit 2; }
done

runs=0
next_port() { # a range of ports that nobody listens on
	while :; do
		port=$((11000 + runs++ % 14 * 1400))
		[ -z "$(ss -Hltun "sport >= :$port and sport <= :$((port + 1300))")" ] && return
	done
}

one() { # peer workload size: prints the client's result line
	local peer=$1 w=$2 size=$3 wl=$2 n=10000 flags=() on_s= on_c= p=$pin
	[ -z "$p" ] && [ $w = pingpong ] && p=same
	case $p in
	same) on_s="taskset -c 0" on_c="taskset -c 0" ;;
	split) on_s="taskset -c 0" on_c="taskset -c 1" ;;
	esac
	case $peer in
	zmq*)
		[ -x "$tmp/zmq" ] || return 0
		[ $peer = zmq-1 ] && wl=mux1
		[ $w = sockets ] && n=2000 # 10,000 take too long
		$with_me $on_s "$tmp/zmq" server $wl $port $size $seconds $n &
		pids+=($!)
		timeout 20 $on_c "$tmp/zmq" client $wl $port $size $seconds $n
		return
		;;
	nats)
		$with_me $on_s "$tmp/benchmarks" broker -addr 127.0.0.1:$port &
		pids+=($!)
		flags=(-broker $!)
		sleep 0.2
		;;
	esac
	flags+=(-addr 127.0.0.1:$port -size $size -dur ${seconds}s)
	$with_me $on_s "$tmp/benchmarks" server $peer $w "${flags[@]}" &
	pids+=($!)
	timeout 20 $on_c "$tmp/benchmarks" client $peer $w "${flags[@]}"
}

begin=$SECONDS
: >"$out"
for rep in $(seq $repeats); do
	while read -r a b c; do
		want w $a || continue
		for peer in $c; do
			want p $peer || continue
			next_port
			(
				trap stop EXIT
				one $peer $a $b
			) 2>"$tmp/err" </dev/null | grep -a '^w=' | sed "s/^/rep=$rep peer=$peer /" >"$tmp/line"
			if [ -s "$tmp/line" ]; then
				cat "$tmp/line" >>"$out"
				[ -z "$results" ] || cat "$tmp/line" >>"$results"
			elif [ "${peer%-1}" != zmq ] || [ -x "$tmp/zmq" ]; then
				echo "run.sh: no result: $peer $a $b: $(grep -v INFO "$tmp/err" | tail -1)" >&2
			fi
		done
	done < <(plan)
	echo "repeat $rep of $repeats done after $((SECONDS - begin)) s" >&2
done
"$tmp/benchmarks" report "$out"
