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
	os.Exit(clitest.Main(m, &bin, "./examples/hello", "./cmd/rdsd"))
}

// A program that sends to itself, through a daemon.
func TestHello(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	dir := rdstest.Dir(t)
	env := []string{"RDS_PROVIDER=", "RDS_SOCKET=" + filepath.Join(dir, "s")}
	daemon := clitest.StartEnv(t, env, bin.Path("rdsd"), "--listen", "127.23.8.1", "--port", "17316", "--control", "none")
	daemon.Line(daemon.Stderr, "ready")
	alone := clitest.StartEnv(t, env, bin.Path("hello"), "127.23.8.1:4000", "127.23.8.1:4000", "Hello, myself")
	if status := alone.Wait(); status != 0 || alone.Stdout.String() != "Hello, myself from 127.23.8.1:4000\n" {
		t.Errorf("status %d, %s%s", status, alone.Stdout, alone.Stderr)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"127.23.8.1:4000", "127.23.8.1:4000"}, {"nowhere"}} {
		if status, _, stderr := clitest.Run(t, bin.Path("hello"), args...); status == 0 || stderr == "" {
			t.Errorf("%q: status %d, %q", args, status, stderr)
		}
	}
}
