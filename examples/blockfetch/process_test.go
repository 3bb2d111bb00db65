//go:build live

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
)

var bin clitest.Bin

func TestMain(m *testing.M) { os.Exit(clitest.Main(m, &bin, "./examples/blockfetch", "./cmd/rdsd")) }

// Two processes, and buffers used again and again.
func TestCommands(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	args := []string{"--provider", "node", "--port", "17312"}
	server := clitest.Start(t, bin.Path("blockfetch"), append(args, "--listen", "127.23.6.2:4000")...)
	server.Line(server.Stdout, "serving 128 blocks of 8192 bytes on 127.23.6.2:4000")
	for _, from := range []string{"127.23.6.1", "127.23.6.3"} {
		status, stdout, stderr := clitest.Run(t, bin.Path("blockfetch"), append(args, "--connect", "127.23.6.2:4000", "--from", from, "--blocks", "2000")...)
		if status != 0 || !strings.HasPrefix(stdout, "2000 blocks in ") || !strings.Contains(stdout, "all verified") {
			t.Errorf("status %d, %q, %s", status, stdout, stderr)
		}
	}
	server.Signal(os.Interrupt)
	if status := server.Wait(); status != 0 {
		t.Errorf("server: status %d, %s", status, server.Stderr)
	}
	if status, _, stderr := clitest.Run(t, bin.Path("blockfetch"), args...); status == 0 || !strings.Contains(stderr, "usage") {
		t.Errorf("no flags: status %d, %q", status, stderr)
	}
}

// Both are applications of a daemon, which they find by themselves.
func TestThroughDaemon(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	dir := rdstest.Dir(t)
	for i, host := range []string{"127.23.7.1", "127.23.7.2"} {
		env := []string{"RDS_PROVIDER=", "RDS_SOCKET=" + filepath.Join(dir, host)}
		daemon := clitest.StartEnv(t, env, bin.Path("rdsd"), "--listen", host, "--port", "17314", "--wire", "xrc", "--control", "none")
		daemon.Line(daemon.Stderr, "ready")
		if i == 0 {
			server := clitest.StartEnv(t, env, bin.Path("blockfetch"), "--listen", host+":4000")
			server.Line(server.Stdout, "serving 128 blocks of 8192 bytes on 127.23.7.1:4000")
			continue
		}
		client := clitest.StartEnv(t, env, bin.Path("blockfetch"), "--connect", "127.23.7.1:4000", "--from", host, "--blocks", "2000")
		if status := client.Wait(); status != 0 || !strings.Contains(client.Stdout.String(), "all verified") {
			t.Errorf("client: status %d, %s%s", status, client.Stdout, client.Stderr)
		}
	}
}
