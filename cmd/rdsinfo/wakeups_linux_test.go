//go:build live

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/rds-go/rds/ebpf"
	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
)

func TestWakeupsOfProcesses(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to trace the scheduler")
	}
	pid := fmt.Sprint(os.Getpid())
	status, stdout, stderr := info(t, "--wakeups", "--for", "300ms", "--json", pid)
	var r ebpf.WakeupsReport
	if err := json.Unmarshal([]byte(stdout), &r); status != 0 || err != nil {
		t.Fatalf("status %d, %v: %s", status, err, stderr)
	}
	if len(r.Threads) == 0 || len(r.Wakes) == 0 { // this process reads what rdsinfo writes
		t.Errorf("nothing is counted: %s", stdout)
	}
	for _, th := range r.Threads {
		if th.PID != os.Getpid() {
			t.Errorf("a thread of another process: %+v", th)
		}
	}
	status, stdout, stderr = info(t, "--wakeups", "--for", "300ms", "--per", "10", pid)
	if status != 0 || !strings.Contains(stdout, "who wakes whom") {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
}

func TestWakeupsNeedPrivilegeAndProcesses(t *testing.T) {
	t.Parallel()
	status, _, stderr := info(t, "--wakeups", "x")
	if status != 2 || !strings.Contains(stderr, `"x" is no process number`) {
		t.Errorf("status %d, %s", status, stderr)
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root, to start a process of another user")
	}
	rdstest.Must(t, os.Chmod(string(bin), 0o755))
	nobody := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	p := clitest.StartAs(t, nobody, nil, bin.Path("rdsinfo"), "--wakeups", fmt.Sprint(os.Getpid()))
	const want = "rdsinfo: wake-ups of threads: not permitted: needs CAP_BPF and CAP_PERFMON\n"
	if status := p.Wait(); status != 1 || p.Stderr.String() != want {
		t.Errorf("status %d, %q, want 1 and %q", status, p.Stderr, want)
	}
}
