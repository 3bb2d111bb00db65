#!/usr/bin/env bash
# Builds the commands and shows them: an rdsd on 127.0.0.1 that rdsping attaches
# to, and one on 127.0.0.2 that answers; pings by RDMA, and by XRC with a queue
# that stops; then what rdsbench measures, of nodes and of daemons. Everything is
# bounded, stays in a temporary directory and ends with the script. Linux only:
# other systems have no 127.0.0.2.
set -euo pipefail
cd "$(dirname "$0")/.."

make --no-print-directory build

tmp=$(mktemp -d)
daemons=()
finish() {
    for pid in "${daemons[@]}"; do
        kill "$pid" 2>/dev/null || true
    done
    for pid in "${daemons[@]}"; do
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

# show COMMAND...: prints the command and runs it for at most 3 minutes.
show() {
    echo
    echo "\$ $*"
    timeout --kill-after=5 180 "$@"
}

# daemon ADDRESS NAME: starts an rdsd and waits until applications can attach.
daemon() {
    local args=(--listen "$1" --socket "$tmp/$2.sock" --control "$tmp/$2.info" --log-level warn)
    echo
    echo "\$ bin/rdsd ${args[*]} &"
    bin/rdsd "${args[@]}" >"$tmp/$2.log" 2>&1 &
    daemons+=($!)
    for _ in $(seq 100); do
        [ -S "$tmp/$2.info" ] && return # made after the other
        kill -0 $! 2>/dev/null || break
        sleep 0.1
    done
    echo "rdsd did not come up:"
    cat "$tmp/$2.log"
    exit 1
}

daemon 127.0.0.1 here
daemon 127.0.0.2 there
show bin/rdsping --socket "$tmp/here.sock" -c 5 -i 200ms 127.0.0.2
show bin/rdsinfo --control "$tmp/here.info" -c -n

echo
echo "\$ bin/rdsverbs rping server -a 127.0.0.2 -v &"
bin/rdsverbs rping server -a 127.0.0.2 -v >"$tmp/rping.log" 2>&1 &
daemons+=($!)
for _ in $(seq 100); do
    grep -q listening "$tmp/rping.log" && break
    sleep 0.1
done
show bin/rdsverbs rping client -a 127.0.0.2 -C 3 -v -V

echo
echo "\$ bin/rdsverbs xsrq serve -a 127.0.0.2 -n 4 &"
bin/rdsverbs xsrq serve -a 127.0.0.2 -n 4 >"$tmp/xsrq.log" 2>&1 &
daemons+=($!)
for _ in $(seq 100); do
    grep -q listening "$tmp/xsrq.log" && break
    sleep 0.1
done
show bin/rdsverbs xsrq ping -a 127.0.0.2 -n 4 -m 4 --stop 1

show bin/rdsbench
show bin/rdsbench --provider rdsd --duration 500ms
show bin/rdsbench rdma --duration 200ms
