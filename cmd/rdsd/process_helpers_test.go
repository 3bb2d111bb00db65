//go:build live

package main

import (
	"context"
	"os"
	"syscall"
	"testing"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/rds"
)

// daemonAt starts a daemon that is alone on this host unless args say more:
// those that share the sockets of the system would meet.
func daemonAt(t *testing.T, args ...string) *clitest.Process {
	t.Helper()
	p := clitest.StartEnv(t, []string{"RDS_SOCKET=none", "RDS_CONTROL=none"}, bin.Path("rdsd"), args...)
	p.Line(p.Stderr, "ready")
	return p
}

// terminate stops a daemon, which has to end without an error.
func terminate(t *testing.T, d *clitest.Process) {
	t.Helper()
	d.Signal(syscall.SIGTERM)
	if status := d.Wait(); status != 0 {
		t.Errorf("status %d: %s", status, d.Stderr)
	}
}

// counterOf is a counter of the daemon behind a control socket.
func counterOf(t *testing.T, ctl, name string) uint64 {
	t.Helper()
	info, err := rds.FetchInfo(context.Background(), ctl)
	must(t, err)
	for _, c := range info.Counters {
		if c.Name == name {
			return c.Value
		}
	}
	t.Fatalf("no counter %s", name)
	return 0
}

// as has a process be of another user.
func as(uid uint32) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root to start processes of other users")
	}
}
