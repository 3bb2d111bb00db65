//go:build live

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/bench"
	"github.com/rds-go/rds/internal/rdstest"
)

type outcome struct {
	stdout, stderr string
	code           int
}

func rdsbench(t *testing.T, args ...string) outcome {
	t.Helper()
	cmd := command(t, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return outcome{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	// Under the race detector each process would wait for a second at its end.
	cmd.Env = append(os.Environ(), asCommand+"=1", "GORACE=atexit_sleep_ms=0")
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

func onLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs Linux: other systems have no 127.0.0.2")
	}
}

// reportOf runs a mode to its end, and returns its report.
func reportOf(t *testing.T, args ...string) (rep bench.Report) {
	t.Helper()
	o := rdsbench(t, append(args, "--json")...)
	if err := json.Unmarshal([]byte(o.stdout), &rep); err != nil || o.code != 0 {
		t.Fatalf("%q: exit %d, %v: %s %s", args, o.code, err, o.stdout, o.stderr)
	}
	return rep
}

func TestUsageErrorsAreOneLineAndExit2(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"nonsense", "--nonsense", "latency more", "latency --size 2m", "rate --paths 3", "mux --depth 0",
		"stress --size 8", "bandwidth --zero-copy maybe", "latency --pin everywhere", "rate --duration 0s",
		"rate --listen 10.0.0.256", "server --listen 0.0.0.0", "server --listen x:1", "--server-cpuprofile x",
		"rate --server 192.0.2.1 --server-cpuprofile x", "mux --processes 4", "fair --provider node", "rate --socket x",
		"rate --wire udp", "rate --wire xrc --provider kernel", "xrc --wire tcp", "xrc --server 192.0.2.1", "fetch --depth 0", "stress --faults", "stress --rdma --wire tcp", "stress --rdma --sockets 4096 --depth 4", "stress --rdma --provider kernel", "atomic --words 1", "atomic --depth 17", "atomic --workers 0", "atomic --wire tcp", "connections --hosts 1", "connections --hosts 64 --sockets 100", "connections --provider rdsd", "mux --sockets 2 --stopped 1", "stopped --pairs 1", "stopped --sockets 10", "stopped --wire tcp", "stopped --provider node", "mux --sockets 4 --peers 4 --stopped 4", "fetch --size 16k", "rdma --wire tcp", "rdma --crc maybe", "rdma --op atomic", "rdma --depth 3", "rdma --op read --depth 200", "rdma --op read --queues 4", "rdma --op send --queues 4 --stopped 4", "chernobyl --workers 0", "chernobyl --provider node", "chernobyl --sockets --size 300k", "chernobyl --sockets --wire tcp", "mr --size 64", "latency --duration x",
	} {
		o := rdsbench(t, strings.Fields(args)...)
		if o.code != 2 || strings.Count(o.stderr, "\n") != 1 || !strings.HasPrefix(o.stderr, "rdsbench: ") || o.stdout != "" {
			t.Errorf("%s: exit %d, %q, %q", args, o.code, o.stdout, o.stderr)
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"--version", "latency --version"} {
		o := rdsbench(t, strings.Fields(args)...)
		if o.code != 0 || !strings.HasPrefix(o.stdout, "rdsbench ") || !strings.Contains(o.stdout, runtime.Version()) || o.stderr != "" {
			t.Errorf("%s: exit %d, %q, %q", args, o.code, o.stdout, o.stderr)
		}
	}
}

func TestHelpHasExamples(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"", "latency", "rate", "bandwidth", "mux", "stress", "fair", "stopped", "attach", "sockets", "fetch", "xrc", "atomic", "connections", "rdma", "chernobyl", "mr", "server"} {
		o := rdsbench(t, append(strings.Fields(mode), "--help")...)
		if o.code != 0 || !strings.Contains(o.stdout, "Examples:\n  rdsbench") {
			t.Errorf("%s: exit %d, %s", mode, o.code, o.stdout)
		}
	}
}

func TestLatencyAsJSONAndPage(t *testing.T) {
	onLinux(t)
	page := filepath.Join(t.TempDir(), "page.html")
	rep := reportOf(t, "latency", "--pin", "same", "--baseline", "--duration", "50ms", "--warmup", "0s", "--html", page)
	if len(rep.Rows) != 1 || rep.Rows[0].TCP == nil || rep.Rows[0].Ratio <= 0 || rep.Rows[0].RDS.TCPConns != 1 {
		t.Errorf("%+v", rep)
	}
	if b, err := os.ReadFile(page); err != nil || !bytes.Contains(b, []byte("</html>")) {
		t.Errorf("page: %v, %s", err, b)
	}
}

// daemonRun runs a mode with daemons of its own and returns its report. Nothing
// is left of the daemons.
func daemonRun(t *testing.T, args ...string) []bench.Row {
	t.Helper()
	onLinux(t)
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	rep := reportOf(t, append(args, "--provider", "rdsd", "--duration", "50ms", "--warmup", "10ms")...)
	for _, row := range rep.Rows {
		if !row.Finished || row.RDS.Messages == 0 {
			t.Errorf("%q: %+v", args, row)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	return rep.Rows
}

// Each mode works through daemons, beside embedded nodes and plain TCP.
func TestModesWithDaemons(t *testing.T) {
	for _, args := range []string{
		"latency --baseline --pin same", "rate --baseline --size 64 --batch 16", "bandwidth --baseline --size 64k",
		"mux --baseline --sockets 3 --peers 2", "stress",
	} {
		rows := daemonRun(t, strings.Fields(args)...)
		if len(rows) != 1 || rows[0].RDS.TCPConns != 1 {
			t.Fatalf("%s: %+v", args, rows)
		}
		if row := rows[0]; strings.Contains(args, "--baseline") && (row.Node == nil || row.OfNode <= 0 || row.TCP == nil || row.Ratio <= 0) {
			t.Errorf("%s: %+v", args, row)
		}
	}
}

func TestProcessesShareOneConnection(t *testing.T) {
	rows := daemonRun(t, "mux", "--processes", "3")
	if len(rows) != 1 || rows[0].RDS.TCPConns != 1 || rows[0].RDS.Latency == nil || !strings.HasPrefix(rows[0].Title, "mux 3x3 processes, 256 B") {
		t.Errorf("%+v", rows)
	}
}

func TestFair(t *testing.T) {
	rows := daemonRun(t, "fair")
	if row := rows[0]; len(rows) != 1 || row.Alone == nil || row.RDS.Flood <= 0 || row.RDS.TCPConns != 1 || !strings.Contains(row.Sentence(), "against alone") {
		t.Errorf("%+v", rows)
	}
}

func TestAttach(t *testing.T) {
	rows := daemonRun(t, "attach", "--attaches", "5", "--sessions", "20")
	if len(rows) != 2 || rows[0].RDS.Memory == nil || rows[1].RDS.Messages != 5 || rows[1].RDS.Latency == nil {
		t.Errorf("%+v", rows)
	}
}

func TestRDMAProcesses(t *testing.T) {
	onLinux(t)
	pin := "split"
	if runtime.NumCPU() < 2 {
		pin = "same"
	}
	for _, args := range []string{"rdma --op write --size 64k", "rdma --op read --size 8k --crc off", "rdma --op send --crc on --pin " + pin, "mr"} {
		rep := reportOf(t, append(strings.Fields(args), "--duration", "30ms", "--warmup", "10ms")...)
		for _, row := range rep.Rows {
			if !row.Finished || row.RDS.Messages == 0 || (row.TCP != nil) != (row.Work.Kind == bench.RDMA) {
				t.Errorf("%s: %+v", args, row)
			}
		}
	}
}

func TestStressFailureExits1(t *testing.T) {
	onLinux(t)
	if o := rdsbench(t, "stress", "--duration", "100ms"); o.code != 0 || !strings.Contains(o.stdout, "verified") {
		t.Errorf("exit %d: %s %s", o.code, o.stdout, o.stderr)
	}
	o := rdsbench(t, "stress", "--duration", "1m", "--fault", "corrupt")
	if o.code != 1 || !strings.Contains(o.stderr, "payload at byte") || strings.Contains(o.stdout, "verified") {
		t.Errorf("exit %d: %s %s", o.code, o.stdout, o.stderr)
	}
}

func TestProfilesAreWritten(t *testing.T) {
	onLinux(t)
	dir := t.TempDir()
	files := []string{filepath.Join(dir, "cpu"), filepath.Join(dir, "mem"), filepath.Join(dir, "server")}
	o := rdsbench(t, "rate", "--size", "64", "--duration", "50ms",
		"--cpuprofile", files[0], "--memprofile", files[1], "--server-cpuprofile", files[2])
	if o.code != 0 {
		t.Fatalf("exit %d: %s", o.code, o.stderr)
	}
	for _, f := range files {
		if st, err := os.Stat(f); err != nil || st.Size() == 0 {
			t.Errorf("%s: %v", f, err)
		}
	}
}

// An interrupt prints the figures there are; the server that was started ends.
func TestInterruptPrintsWhatThereIs(t *testing.T) {
	onLinux(t)
	cmd := command(t, "rate", "--size", "64", "--duration", "1m", "--warmup", "0s")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	rdstest.Must(t, cmd.Start())
	interrupt := time.AfterFunc(time.Second, func() { cmd.Process.Signal(os.Interrupt) })
	defer interrupt.Stop()
	cmd.Wait()
	if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(stderr.String(), "interrupted") || !strings.Contains(stdout.String(), "(cut short)") {
		t.Errorf("%v: %s %s", cmd.ProcessState, stdout.String(), stderr.String())
	}
}

// A server started by hand serves one client after the other and ends with an
// interrupt.
func TestServerOfItsOwn(t *testing.T) {
	onLinux(t)
	server := command(t, "server", "--listen", "127.0.0.2", "--control-port", "0")
	pipe, err := server.StderrPipe()
	rdstest.Must(t, err)
	rdstest.Must(t, server.Start())
	lines := bufio.NewScanner(pipe)
	if !lines.Scan() {
		t.Fatal("no line from the server")
	}
	address, ok := strings.CutPrefix(lines.Text(), "serving on ")
	if !ok {
		t.Fatalf("the server says %q", lines.Text())
	}
	for range 2 {
		o := rdsbench(t, "mux", "--server", address, "--listen", "localhost", "--sockets", "2", "--peers", "2", "--duration", "50ms", "--baseline")
		if o.code != 0 || !strings.Contains(o.stdout, "mux 2x2") {
			t.Errorf("exit %d: %s %s", o.code, o.stdout, o.stderr)
		}
	}
	server.Process.Signal(os.Interrupt)
	rest, _ := io.ReadAll(pipe)
	if err := server.Wait(); err != nil {
		t.Errorf("%v: %s", err, rest)
	}
}
