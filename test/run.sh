#!/usr/bin/env bash
# Runs every check there is; see CONTRIBUTING.md. The last line is
# "N passed, N failed, N skipped": tests of all runs, and each failed stage
# that is no test (format, vet, build) as one failure.
#
#   FUZZTIME=30s   time, or with an x inputs, for each fuzz target; default 300 to 30,000 inputs
#   STAGES="vet unit"   only these stages
set -euo pipefail
cd "$(dirname "$0")/.."
. test/lib.sh

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
tally=$tmp/tally
: >"$tally"
SECONDS=0

# stage NAME COMMAND...: runs one stage, notes its failure and goes on.
stage() {
    local name=$1
    shift
    case " ${STAGES:-$name} " in *" $name "*) ;; *) return 0 ;; esac
    printf '== %s (%d s)\n' "$name" "$SECONDS"
    # In a subshell of its own with -e, which "if stage" would switch off.
    set +e
    (set -e; "$@")
    local rc=$?
    set -e
    if [ $rc -ne 0 ]; then
        echo "FAILED: $name"
        awk -v s="$name" '$1 == s && $3 > 0 { found = 1 } END { exit !found }' "$tally" || echo "$name 0 1 0" >>"$tally"
    fi
}

# skip NAME REASON: one visible line, counted.
skip() {
    echo "SKIP $1: $2"
    echo "$1 0 0 1" >>"$tally"
}

# tests NAME ARGUMENTS...: go test, counted.
tests() {
    local name=$1
    shift
    go test -json "$@" | "$tmp/testsum" -stage "$name" -tally "$tally"
}

format() {
    local out
    out=$(gofmt -l .)
    [ -z "$out" ] || { echo "not gofmt'ed:"; echo "$out"; return 1; }
}

vet() {
    go vet ./...
    if [ -d test/interop ]; then
        go vet -tags interop ./test/interop/...
    fi
}

# fuzz runs each target of the module.
fuzz() {
    local targets pkg target failed=0
    # go test -list prints names, then the package they belong to.
    go test -list '^Fuzz' ./... >"$tmp/list" || failed=1
    targets=$(awk '/^Fuzz/ { names[n++] = $1 } /^ok/ { for (i = 0; i < n; i++) print $2, names[i]; n = 0 }' "$tmp/list")
    [ -n "$targets" ] || { echo 'no fuzz targets'; return 1; }
    echo "$(wc -l <<<"$targets") targets"
    while read -r pkg target; do
        fuzz_one "$pkg" "$target" || failed=1
    done <<<"$targets"
    return $failed
}

# fuzz_one counts inputs and not time: before Go 1.27 the end of the time
# itself is now and then reported as a failure, "context deadline exceeded"
# (go.dev/issue/75804). Who asks for a time gets a second try then: a real
# failure names the input it wrote, or another error. Inputs are not made
# smaller on the way, which would take most of the time.
fuzz_one() {
    local inputs=30000x try # a second's, about
    case ${1##*/}.$2 in
    iwarp.FuzzStream | iwarp.FuzzSharedStream) inputs=3000x ;; # a connection for each
    conn.FuzzConn) inputs=1000x ;; # a run of the protocol for each
    iwarp.FuzzReceiverMatchesItsTwin | rds.FuzzSession) inputs=300x ;;
    esac
    for try in 1 2; do
        go test -json -run '^$' -fuzz "^$2\$" -fuzztime "${FUZZTIME:-$inputs}" -fuzzminimizetime 0x "$1" </dev/null >"$tmp/fuzz" 2>&1 || true
        if [ $try = 1 ] && grep -q 'context deadline exceeded' "$tmp/fuzz" && ! grep -q 'Failing input' "$tmp/fuzz"; then
            continue
        fi
        break
    done
    "$tmp/testsum" -stage "fuzz" -tally "$tally" <"$tmp/fuzz" >"$tmp/report" && return 0
    echo "$1 $2"
    cat "$tmp/report"
    return 1
}

# generate compiles the programs for the kernel anew, in a copy, and compares.
generate() {
    local copy=$tmp/generate
    mkdir -p "$copy"
    cp -a go.mod go.sum ebpf "$copy"
    (cd "$copy" && go generate ./ebpf/internal/bpf)
    diff -rq ebpf/internal/bpf "$copy/ebpf/internal/bpf" && return
    echo 'the committed objects are not those of the sources: go generate ./ebpf/internal/bpf'
    return 1
}

benchmarks() {
    cd benchmarks
    # Several commands at once are built and thrown away.
    go build ./...
    go vet ./...
}

cross() {
    GOOS=darwin GOARCH=arm64 go build ./...
    GOOS=linux GOARCH=arm64 go build ./...
    local arch
    for arch in 386 arm; do # where int has 32 bits
        GOOS=linux GOARCH=$arch go build ./...
        GOOS=linux GOARCH=$arch go vet ./...
    done
}

# cross_run runs tests of what is laid out in memory, and of the core, with an int of 32 bits.
cross_run() {
    export GOARCH=386
    if ! go test -run '^$' ./internal/wire >/dev/null 2>&1; then
        skip cross 'this machine does not run programs of 32 bits'
        return
    fi
    tests cross -count=1 ./internal/ipc/... ./internal/fifo/... ./internal/wire/... ./internal/statefile/... ./conn/... ./mr/...
}

# demo is what newcomers run first. In a network of its own nothing has its ports.
demo() {
    local own=()
    unshare -n ip link set lo up 2>/dev/null && own=(unshare -n sh -c 'ip link set lo up && exec "$@"' sh)
    "${own[@]}" bash test/demo.sh >"$tmp/demo" 2>&1 && tail -n 1 "$tmp/demo" && return
    cat "$tmp/demo"
    return 1
}

interop() {
    tests interop -tags interop ./test/interop/... -count=1 -v -timeout 20m
}

# interop_missing says why the interop tests cannot run here.
interop_missing() {
    [ "$(uname -s)" = Linux ] || { echo "needs Linux"; return 0; }
    [ "$(id -u)" -eq 0 ] || { echo "needs root for network namespaces"; return 0; }
    command -v qemu-system-x86_64 >/dev/null || { echo "no qemu-system-x86_64"; return 0; }
}

modules
go build -o "$tmp/testsum" ./internal/testsum

stage format format
stage vet vet
stage staticcheck go tool staticcheck ./...
stage tidy go mod tidy -diff
case " ${STAGES:-generate} " in
*" generate "*)
    # The objects depend on the compiler, which is why it is this one and no other.
    if need clang-19 llvm-19 libbpf-dev linux-libc-dev; then
        stage generate generate
    else
        skip generate "$need_why"
    fi
    ;;
esac
race=()
case " ${STAGES:-unit} " in
*" unit "*)
    # The race detector is linked by a C compiler. A plain build needs none.
    [ "$(go env CGO_ENABLED)" = 1 ] || need gcc libc6-dev || echo "$need_why"
    if [ "$(go env CGO_ENABLED)" = 1 ]; then
        race=(-race)
    else
        skip race "the race detector needs gcc and libc6-dev: ${need_why:-CGO_ENABLED is 0}"
    fi
    need tshark iproute2 || echo "$need_why" # read our captures, make namespaces; tests that lack one skip
    ;;
esac
stage unit tests unit "${race[@]}" -shuffle=on ./...
# Without the race detector: counts that are exact only so, and the kill test with all its 200 kills.
stage allocations tests allocations -count=1 -run 'Alloc|TenThousand|ApplicationsAreKilled' ./conn/... ./mr/... ./rds/... ./internal/... ./transport/...
stage invariants tests invariants -tags invariants ./conn/... ./mr/... ./xrc/... ./transport/... ./internal/...
stage fuzz fuzz
if [ -f benchmarks/go.mod ]; then
    stage benchmarks benchmarks
fi
stage cross cross
stage cross cross_run
if [ "$(uname -s)" = Linux ]; then
    stage demo demo
fi
case " ${STAGES:-interop} " in
*" interop "*)
    if [ ! -d test/interop ]; then
        skip interop 'no test/interop in this tree'
    elif ! need linux-image-amd64 busybox-static cpio kmod qemu-system-x86 iproute2; then
        skip interop "$need_why"
    elif why=$(interop_missing) && [ -n "$why" ]; then
        skip interop "$why"
    else
        # Without these the cases with siw skip, and say why.
        need linux-source-6.1 linux-headers-amd64 gcc libc6-dev make xz-utils binutils \
            ibverbs-providers rdmacm-utils perftest libibverbs-dev librdmacm-dev || echo "$need_why"
        # The second kernel, of Debian 12's security archive. Without it TestOtherKernels skips, and says why.
        need linux-image-6.12-amd64 xz-utils || echo "$need_why"
        stage interop interop
    fi
    ;;
esac

printf '== done (%d s)\n' "$SECONDS"
failed=$(awk '{ n += $3 } END { print n + 0 }' "$tally")
"$tmp/testsum" -total "$tally"
[ "$failed" -eq 0 ]
