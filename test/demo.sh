#!/usr/bin/env bash
# Shows the service on loopback, with a verdict in the last line: an rdsd on 127.0.0.1 that
# applications attach to, and one on 127.0.0.2 that answers; pings that go on over a daemon
# that is killed and comes back; RDMA; shared receive queues, one of which stops. The first
# answer comes within 10 s of the built commands, the end within a minute. Everything stays
# in a temporary directory and ends with the script. Linux only: other systems have no
# 127.0.0.2. `make bench-table` has the measurements.
set -euo pipefail
cd "$(dirname "$0")/.."
. test/lib.sh

modules
make --no-print-directory build

began=$(date +%s%N)
tmp=$(mktemp -d)
declare -A running # name -> pid
failures=()
finish() {
    local pid
    for pid in "${running[@]}"; do
        kill "$pid" 2>/dev/null || true
    done
    for pid in "${running[@]}"; do
        for _ in $(seq 50); do
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    rm -rf "$tmp"
}
trap finish EXIT
trap 'exit 130' INT TERM

# step WORDS...: says what comes, and how late it is.
step() { printf '\n== %s (%d.%d s)\n' "$*" $((($(date +%s%N) - began) / 1000000000)) $((($(date +%s%N) - began) / 100000000 % 10)); }

# check WHAT COMMAND...: notes a failure of the command.
check() {
    local what=$1
    shift
    "$@" || { echo "FAILED: $what"; failures+=("$what"); }
}

# show COMMAND...: prints the command and runs it for at most a minute.
show() {
    echo "\$ $*"
    timeout --kill-after=5 60 "$@"
}

# background NAME COMMAND...: prints the command and runs it beside the script.
background() {
    local name=$1
    shift
    echo "\$ $* &"
    : >"$tmp/$name.log" # await may read it before the command has begun
    "$@" >>"$tmp/$name.log" 2>&1 &
    running[$name]=$!
}

# await NAME COMMAND...: waits until the command succeeds or the process NAME has ended.
await() {
    local name=$1
    shift
    for _ in $(seq 200); do
        "$@" && return
        kill -0 "${running[$name]}" 2>/dev/null || break
        sleep 0.05
    done
    echo "$name did not come up:"
    cat "$tmp/$name.log"
    return 1
}

# daemon NAME ADDRESS: starts an rdsd and waits until applications can attach.
daemon() {
    rm -f "$tmp/$1.info"
    background "$1" bin/rdsd --listen "$2" --socket "$tmp/$1.sock" --control "$tmp/$1.info" --log-level warn
    await "$1" test -S "$tmp/$1.info" # made after the other one
}

# waits tells whether something of the first host waits.
waits() { ! bin/rdsinfo --control "$tmp/here.info" why | grep -q 'nothing waits'; }

# verdict is the last line.
verdict() {
    echo
    if [ ${#failures[@]} -gt 0 ]; then
        printf 'demo: FAILED:'
        printf ' %s;' "${failures[@]}"
        echo
        exit 1
    fi
    echo "demo: OK: ping, reconnect, RDMA and shared queues work on this machine"
}

step "two hosts, each with a daemon"
daemon here 127.0.0.1 || { failures+=("rdsd on 127.0.0.1"); verdict; }
daemon there 127.0.0.2 || { failures+=("rdsd on 127.0.0.2"); verdict; }

step "an application pings the other host"
check "ping" show bin/rdsping --socket "$tmp/here.sock" -c 3 -i 100ms 127.0.0.2
first=$((($(date +%s%N) - began) / 1000000))
check "first answer within 10 s" test "$first" -lt 10000
check "report" show bin/rdsinfo --control "$tmp/here.info" -n

step "the other daemon is killed while pings go on, and comes back"
background pings bin/rdsping --socket "$tmp/here.sock" -c 12 -i 200ms -W 10 127.0.0.2
await pings grep -q '^ *4: ' "$tmp/pings.log" || failures+=("pings before the kill")
echo "\$ kill -KILL ${running[there]}   # rdsd of 127.0.0.2, between two pings"
{ kill -KILL "${running[there]}" && wait "${running[there]}"; } 2>/dev/null || true
await pings waits || failures+=("a ping that waits for the daemon")
show bin/rdsinfo --control "$tmp/here.info" why || true
daemon there 127.0.0.2 || failures+=("rdsd that comes back")
check "pings that go on" wait "${running[pings]}"
unset 'running[pings]'
cat "$tmp/pings.log"
echo "(the ping with the long time waited in rdsd until the other daemon was back)"
check "no ping is lost" grep -q '12 packets transmitted, 12 received, 0% packet loss' "$tmp/pings.log"

step "RDMA: reads and writes of the peer's memory"
background rping bin/rdsverbs rping server -a 127.0.0.2 -v
await rping grep -q listening "$tmp/rping.log" || failures+=("rping server")
check "RDMA" show bin/rdsverbs rping client -a 127.0.0.2 -C 3 -v -V

step "shared receive queues: one stops, and the others go on"
background xsrq bin/rdsverbs xsrq serve --socket "$tmp/there.sock" -n 4
await xsrq grep -q listening "$tmp/xsrq.log" || failures+=("xsrq server")
check "shared queues" show bin/rdsverbs xsrq ping --socket "$tmp/here.sock" -a 127.0.0.2 -n 4 -m 4 --stop 1

verdict
