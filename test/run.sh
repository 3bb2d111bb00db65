#!/usr/bin/env bash
# Runs every check there is; see CONTRIBUTING.md. It ends with a line
# "N passed, N failed, N skipped": tests of all runs, and each failed stage
# that is no test (format, vet, build) as one failure.
#
#   FUZZTIME=30s   time, or with an x inputs, for each fuzz target; default 300 to 30,000 inputs
#   STAGES="vet pure"   only these stages
#   REPORTS=dir   keep the events of each run of tests there, and JUnit's form of them; *.json and *.xml go first
set -euo pipefail
cd "$(dirname "$0")/.."
. test/lib.sh

all='format vet staticcheck tidy generate pure live allocations simulator fuzz benchmarks cross demo interop'
for name in ${STAGES:-}; do
    case " $all " in
    *" $name "*) ;;
    *) echo "no stage $name; there are: $all" >&2; exit 2 ;;
    esac
done

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
tally=$tmp/tally
within=() # command that tests run within
reports=${REPORTS:-$tmp/reports}
mkdir -p "$reports"
rm -f "$reports"/*.json "$reports"/*.xml
: >"$tally"
SECONDS=0

# stage NAME COMMAND...: runs one stage, notes its failure and goes on.
stage() {
    local name=$1
    shift
    case " ${STAGES:-$name} " in *" $name "*) ;; *) return 0 ;; esac
    printf '== %s (%d s)\n' "$name" "$SECONDS"
    # In a subshell that sets -e: an "if" or "||" around the stage would switch it off.
    set +e
    (set -e; "$@")
    local rc=$?
    set -e
    if [ $rc -ne 0 ]; then
        echo "FAILED: $name"
        # A stage that is no test is one failure.
        grep -qE "\"stage\":\"([a-z]+-)?$name\".*\"failed\":[1-9]" "$tally" || printf '{"stage":"%s","failed":1}\n' "$name" >>"$tally"
    fi
}

# skip NAME REASON: one visible line, counted.
skip() {
    echo "SKIP $1: $2"
    printf '{"stage":"%s","skipped":1,"skips":{"%s":1}}\n' "$1" "${2//[\"\\]/}" >>"$tally"
}

# tests NAME ARGUMENTS...: go test, counted. It says which package is done, and keeps the
# events in $reports.
tests() {
    run_tests "" "$@"
}

# tests_again NAME ARGUMENTS...: the same for tests on real time: one that fails is run again.
tests_again() {
    run_tests again "$@"
}

run_tests() {
    local again=$1 name=$2
    shift 2
    # A failed test is run again with the flags that all packages have.
    local arg flags=() packages=() tags=() count
    for arg in "$@"; do
        case $arg in
        ./*) packages+=("$arg") ;;
        -p=* | -shuffle=*) ;;
        *) flags+=("$arg") ;;
        esac
        case $arg in -tags=*) tags=("$arg") ;; esac
    done
    count=$(go list "${tags[@]}" -f '{{if or .TestGoFiles .XTestGoFiles}}x{{end}}' "${packages[@]}" | grep -c x)
    # A failure is told by testsum, below. One package with tests of minutes is told by its tests.
    local format=pkgname of=" of $count" status=0
    [ "$count" -gt 1 ] || format=testname of=""
    "${within[@]}" "$tmp/gotestsum" --format "$format" --format-icons text --format-hide-empty-pkg --hide-summary all --no-color \
        --jsonfile "$reports/$name.json" --junitfile "$reports/$name.xml" -- "$@" | progress "$name" "$of" || status=1
    "$tmp/testsum" -stage "$name" -tally "$tally" -exit $status ${again:+-again "go test ${flags[*]}"} <"$reports/$name.json"
}

# progress NAME OF numbers the lines that tell of packages, or of tests.
progress() {
    local line i=0
    while IFS= read -r line; do
        case $line in
        PASS* | FAIL* | SKIP*) printf '[%s %d%s, %d s] %s\n' "$1" $((++i)) "$2" "$SECONDS" "$line" ;;
        *) printf '%s\n' "$line" ;;
        esac
    done
}

# live_tag is the build tag of a file with tests of the stage live.
live_tag='^//go:build ([^!]*[^!a-z])?live\b'

# live_packages are the packages that have such files.
live_packages() {
    grep -rlE --include='*_test.go' "$live_tag" . | packages_of
}

# packages_of prints the packages of files.
packages_of() {
    xargs -n 1 dirname | sort -u
}

format() {
    local out
    out=$(gofmt -l .)
    [ -z "$out" ] || { echo "not gofmt'ed:"; echo "$out"; return 1; }
}

vet() {
    go vet ./...
    go vet -tags live ./...
    if [ -d test/interop ]; then
        go vet -tags interop ./test/interop/...
    fi
}

# check is staticcheck over both stages of tests: what one of them uses is not unused.
check() {
    go tool staticcheck -matrix ./... <<'END'
pure:
live: -tags=live
END
}

# fuzz runs each target of the module, those of a package from one program.
fuzz() {
    local file target dir tag built='' failed=0 i=0
    grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | while IFS=: read -r file target; do
        # A target that needs real sockets has the tag live.
        tag=fuzz
        ! grep -qE "$live_tag" "$file" || tag=live
        echo "$(dirname "$file") $tag ${target#func }"
    done | sort >"$tmp/list"
    [ -s "$tmp/list" ] || { echo 'no fuzz targets'; return 1; }
    while read -r dir tag target; do
        printf '[fuzz %d of %d, %d s] %s\n' $((++i)) "$(wc -l <"$tmp/list")" "$SECONDS" "${dir#./} $target"
        if [ "$built" != "$dir $tag" ]; then
            built="$dir $tag"
            rm -f "$tmp/fuzz.test"
            go test -c -fuzz=. "-tags=$tag" -o "$tmp/fuzz.test" "$dir" || { failed=1; continue; }
        fi
        [ -e "$tmp/fuzz.test" ] && fuzz_one "$dir" "$target" || failed=1
    done <"$tmp/list"
    return $failed
}

# fuzz_one counts inputs and not time: before Go 1.27 the end of the time
# itself is now and then reported as a failure, "context deadline exceeded"
# (go.dev/issue/75804). Who asks for a time gets a second try then: a real
# failure names the input it wrote, or another error. Inputs are not made
# smaller on the way, which would take most of the time.
fuzz_one() {
    local inputs=30000x package try # a second's, about
    package=$(go list "$1")
    case ${1##*/}.$2 in
    iwarp.FuzzStream | iwarp.FuzzSharedStream) inputs=3000x ;; # a connection for each
    conn.FuzzConn) inputs=1000x ;; # a run of the protocol for each
    iwarp.FuzzReceiverMatchesItsTwin | daemon.FuzzSession | daemon.FuzzXRCSession) inputs=300x ;;
    esac
    for try in 1 2; do
        (cd "$1" && go tool test2json -p "$package" "$tmp/fuzz.test" -test.v=test2json -test.run '^$' -test.fuzz "^$2\$" \
            -test.fuzztime "${FUZZTIME:-$inputs}" -test.fuzzminimizetime 0x -test.fuzzcachedir "$(go env GOCACHE)/fuzz/$package") </dev/null >"$tmp/fuzz" 2>&1 || true
        if [ $try = 1 ] && [ -n "${FUZZTIME:-}" ] && grep -q 'context deadline exceeded' "$tmp/fuzz" && ! grep -q 'Failing input' "$tmp/fuzz"; then
            continue
        fi
        break
    done
    # It is called a success when there is no such target.
    "$tmp/testsum" -stage "fuzz" -tally "$tally" <"$tmp/fuzz" >"$tmp/report" && grep -q "\"Test\":\"$2\"" "$tmp/fuzz" && return 0
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
    go build -o /dev/null ./...
    go vet ./...
}

cross() {
    # Packages are compiled, and programs linked for one system alone; vet reads them, and tests.
    local system libraries
    for system in darwin/arm64 linux/arm64 linux/386 linux/arm; do # the last two have an int of 32 bits
        export GOOS=${system%/*} GOARCH=${system#*/}
        libraries=$(go list -f '{{if ne .Name "main"}}{{.ImportPath}}{{end}}' ./...)
        # shellcheck disable=SC2086 # a word for each package
        go build $libraries
        if [ $GOOS = darwin ]; then
            go build -o /dev/null ./cmd/... ./examples/...
        else
            go vet ./...
        fi
    done
    unset GOOS GOARCH
    cross_run
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
    tests_again interop -tags=interop -count=1 -timeout=20m ./test/interop
}

# interop_missing says why the interop tests cannot run here.
interop_missing() {
    [ "$(uname -s)" = Linux ] || { echo "needs Linux"; return 0; }
    [ "$(id -u)" -eq 0 ] || { echo "needs root for network namespaces"; return 0; }
    command -v qemu-system-x86_64 >/dev/null || { echo "no qemu-system-x86_64"; return 0; }
}

modules
go build -o "$tmp/testsum" ./internal/testsum
go build -o "$tmp/gotestsum" gotest.tools/gotestsum

stage format format
stage vet vet
stage staticcheck check
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
flags=(-tags=invariants)
case " ${STAGES:-pure live} " in
*" pure "* | *" live "*)
    # The race detector is linked by a C compiler. A plain build needs none.
    [ "$(go env CGO_ENABLED)" = 1 ] || need gcc libc6-dev || echo "$need_why"
    if [ "$(go env CGO_ENABLED)" = 1 ]; then
        flags+=(-race)
    else
        skip race "the race detector needs gcc and libc6-dev: ${need_why:-CGO_ENABLED is 0}"
    fi
    need tshark iproute2 || echo "$need_why" # read our captures, make namespaces; tests that lack one skip
    ;;
esac

# pure tests depend on no network, and where that is possible they have none. Examples do, and
# are run by the live stage.
pure() {
    local within=()
    ! unshare -n true 2>/dev/null || within=(unshare -n)
    tests pure "${flags[@]}" -shuffle=on -timeout=20m -skip=^Example ./...
}

# live tests have sockets, processes and time of their own. One package is tested at a time, so
# that they do not fight for the processors.
live() {
    local build=("${flags[@]/#-tags=/-tags=live,}")
    # All is compiled first, by all processors: with -p=1 one would do it.
    # shellcheck disable=SC2046 # a word for each package
    go list -export -deps -test "${build[@]}" $(live_packages) >/dev/null
    local status=0
    # shellcheck disable=SC2046
    tests_again live -p=1 -shuffle=on -timeout=20m "${build[@]}" $(live_packages) || status=1
    # Examples of packages that have no live tests.
    # shellcheck disable=SC2046
    tests examples-live -run=^Example "${build[@]}" $(comm -13 <(live_packages) <(grep -rlE --include='*_test.go' '^func Example' . | packages_of)) || status=1
    return $status
}

# allocations are counted without the race detector, which allocates by itself; so is memory. The test
# that kills applications is run here too: with the tag invariants it kills 20 instead of 200.
allocations() {
    local names='Alloc|TenThousand|ApplicationsAreKilled|MemoryOfAPair' files status=0
    files=$(grep -rlE --include='*_test.go' "^func Test[A-Za-z0-9_]*($names)" .)
    # shellcheck disable=SC2046,SC2086 # a word for each package, and file
    tests allocations -count=1 "-run=$names" $(grep -LE "$live_tag" $files | packages_of) || status=1
    # shellcheck disable=SC2046,SC2086
    tests_again live-allocations -count=1 -p=1 -tags=live "-run=$names" $(grep -lE "$live_tag" $files | packages_of) || status=1
    return $status
}

stage pure pure
stage live live
stage allocations allocations
# The simulator has one goroutine, so the race detector finds nothing there and takes most of the time.
# The model of XRC objects has worlds that are too large for it.
stage simulator tests simulator -count=1 -tags=invariants ./internal/simnet ./xrc/objects/model
stage fuzz fuzz
if [ -f benchmarks/go.mod ]; then
    stage benchmarks benchmarks
fi
stage cross cross
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
if ls "$reports"/*.json >/dev/null 2>&1; then
    echo 'the slowest tests:'
    cat "$reports"/*.json | "$tmp/gotestsum" tool slowest --num 20 || true
fi
# The day of the commit, not today's: what a commit's run says stays true.
today=$(git log -1 --format=%cs 2>/dev/null || date +%F)
"$tmp/testsum" -total "$tally" -known test/flaky.txt -today "$today"
