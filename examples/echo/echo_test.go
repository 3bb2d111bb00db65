//go:build live

// Package echo holds the test of the two programs below it.
package echo

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
)

var bin clitest.Bin

func TestMain(m *testing.M) {
	os.Exit(clitest.Main(m, &bin, "./examples/echo/server", "./examples/echo/client", "./cmd/rdsd"))
}

func TestEcho(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	server := clitest.Start(t, bin.Path("server"), "-provider", "node", "-port", "17301", "127.23.1.2:4000")
	server.Line(server.Stdout, "echoing on 127.23.1.2:4000")
	for _, local := range []string{"127.23.1.1:0", "127.23.1.3:0"} { // on either side of the server's address
		status, stdout, stderr := clitest.Run(t, bin.Path("client"), "-provider", "node", "-port", "17301", local, "127.23.1.2:4000", "Hello,", "", "datagram world")
		if want := "Hello,\n\ndatagram world\n"; status != 0 || stdout != want {
			t.Errorf("client: status %d, %q%s; want %q", status, stdout, stderr, want)
		}
		server.Line(server.Stdout, "14 bytes from 127.23.1.")
	}
	server.Signal(os.Interrupt)
	if status := server.Wait(); status != 0 {
		t.Errorf("server: status %d, %s", status, server.Stderr)
	}
}

// Both attach to a running rdsd without being told to.
func TestEchoThroughDaemon(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	dir := rdstest.Dir(t)
	env := []string{"RDS_PROVIDER=", "RDS_SOCKET=" + filepath.Join(dir, "s")}
	daemon := clitest.StartEnv(t, env, bin.Path("rdsd"), "--listen", "127.23.2.1,127.23.2.2", "--port", "17302", "--control", "none")
	daemon.Line(daemon.Stderr, "ready")
	server := clitest.StartEnv(t, env, bin.Path("server"), "127.23.2.2:4000")
	server.Line(server.Stdout, "echoing on 127.23.2.2:4000")
	client := clitest.StartEnv(t, env, bin.Path("client"), "127.23.2.1:0", "127.23.2.2:4000", "Hello,", "datagram world")
	if status := client.Wait(); status != 0 || client.Stdout.String() != "Hello,\ndatagram world\n" {
		t.Errorf("client: status %d, %s%s", status, client.Stdout, client.Stderr)
	}
	server.Signal(os.Interrupt)
	if status := server.Wait(); status != 0 {
		t.Errorf("server: status %d, %s", status, server.Stderr)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"server", "client"} {
		if status, _, stderr := clitest.Run(t, bin.Path(name)); status == 0 || stderr == "" {
			t.Errorf("%s without arguments: status %d, %q", name, status, stderr)
		}
	}
}
