//go:build live

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
)

var bin clitest.Bin

func TestMain(m *testing.M) {
	os.Exit(clitest.Main(m, &bin, "./examples/sharedtarget", "./cmd/rdsd"))
}

// A worker is killed, and the other one goes on.
func TestSharedTarget(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	dir := rdstest.Dir(t)
	var args []string
	for _, address := range []string{"127.23.9.1", "127.23.9.2"} {
		socket := filepath.Join(dir, address)
		daemon := clitest.Start(t, bin.Path("rdsd"), "--listen", address, "--port", "17318", "--xrc-port", "17319", "--wire", "xrc", "--socket", socket, "--control", "none")
		daemon.Line(daemon.Stderr, "ready")
		args = append(args, socket)
	}
	status, stdout, stderr := clitest.Run(t, bin.Path("sharedtarget"), append(args, "127.23.9.2")...)
	const want = "worker 0: hello\nworker 1: hello\nworker 0 is killed\nto worker 0: no such receive queue\nworker 1: hello\n"
	if status != 0 || stdout != want {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	if status, _, stderr := clitest.Run(t, bin.Path("sharedtarget")); status == 0 || stderr == "" {
		t.Errorf("without arguments: status %d, %q", status, stderr)
	}
}
