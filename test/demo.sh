#!/usr/bin/env bash
# Builds the commands and shows them: the demonstration of rdsbench, then an
# rdsd on 127.0.0.2, pinged from 127.0.0.1 and asked for its connections.
# Everything is bounded and ends with the script. Linux only: other systems
# have no 127.0.0.2.
set -euo pipefail
cd "$(dirname "$0")/.."

make --no-print-directory build

tmp=$(mktemp -d)
daemon=
finish() {
    if [ -n "$daemon" ]; then
        kill "$daemon" 2>/dev/null || true
        for _ in $(seq 50); do
            kill -0 "$daemon" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL "$daemon" 2>/dev/null || true
        wait "$daemon" 2>/dev/null || true
    fi
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

show bin/rdsbench

echo
echo "\$ bin/rdsd --listen 127.0.0.2 --control $tmp/rdsd.sock &"
bin/rdsd --listen 127.0.0.2 --control "$tmp/rdsd.sock" >"$tmp/rdsd.log" 2>&1 &
daemon=$!
for _ in $(seq 100); do
    [ -S "$tmp/rdsd.sock" ] && break
    kill -0 "$daemon" 2>/dev/null || break
    sleep 0.1
done
if ! [ -S "$tmp/rdsd.sock" ]; then
    echo "rdsd did not come up:"
    cat "$tmp/rdsd.log"
    exit 1
fi

show bin/rdsping -c 5 -I 127.0.0.1 127.0.0.2
show bin/rdsinfo --control "$tmp/rdsd.sock" -c -n
