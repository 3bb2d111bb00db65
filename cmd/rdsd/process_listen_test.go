//go:build live

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
)

// randomHost is an address on which nobody else has the default ports, which a node that
// an application made by accident would take.
func randomHost() string {
	return fmt.Sprintf("127.%d.%d.%d", 100+rand.IntN(100), rand.IntN(256), 1+rand.IntN(254))
}

// Under an application that calls Listen again whenever rdsd has been killed, rdsd comes
// back on its ports each time: the application waits for it, and says for which socket.
func TestDaemonComesBackUnderAnApplicationThatListens(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	run, host := filepath.Join(rdstest.Dir(t), "rds"), randomHost()
	env := []string{"RDS_RUNTIME_DIR=" + run, "RDS_SOCKET=", "RDS_CONTROL=none", "RDS_PROVIDER="}
	start := func() *clitest.Process {
		d := clitest.StartEnv(t, env, bin.Path("rdsd"), "--listen", host)
		d.Line(d.Stderr, "ready")
		return d
	}
	d := start()
	app := clitest.StartEnv(t, append(env, listenEnv+"="+host+":4000"), os.Args[0])
	app.Line(app.Stdout, "bound")
	for range 3 {
		d.Signal(syscall.SIGKILL)
		d.Wait()
		app.Line(app.Stdout, "lost:")
		for range 3 {
			if line := app.Line(app.Stdout, ""); !strings.HasPrefix(line, "failed:") || !strings.Contains(line, filepath.Join(run, "rds.sock")) {
				t.Fatalf("without rdsd the application says %q", line)
			}
		}
		d = start() // which fails if the application has its ports
		app.Line(app.Stdout, "bound")
	}
	terminate(t, d)
	if info, err := os.Stat(run); err != nil || !info.IsDir() {
		t.Errorf("rdsd has stopped, and its directory is gone: %v", err)
	}
	app.Line(app.Stdout, "failed:") // and the application still waits for the next one
	if app.Stderr.String() != "" {
		t.Errorf("the application's log: %s", app.Stderr)
	}
}

// Without the directory the application is a node, and its log says so once.
func TestApplicationIsANodeOnAHostWithoutDaemon(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	run, host := filepath.Join(rdstest.Dir(t), "rds"), randomHost()
	env := []string{"RDS_RUNTIME_DIR=" + run, "RDS_SOCKET=", "RDS_CONTROL=none", "RDS_PROVIDER="}
	app := clitest.StartEnv(t, append(env, listenEnv+"="+host+":4000", listenTwiceEnv+"=1"), os.Args[0])
	for range 2 {
		app.Line(app.Stdout, "bound")
	}
	app.Line(app.Stdout, "again")
	if n := strings.Count(app.Stderr.String(), "this host has no rdsd"); n != 1 {
		t.Errorf("the log says %d times that the application is a node:\n%s", n, app.Stderr)
	}
	// The daemon cannot start beside it, and from then on the host has one.
	d := clitest.StartEnv(t, env, bin.Path("rdsd"), "--listen", host)
	if status := d.Wait(); status != 1 || !strings.Contains(d.Stderr.String(), "is in use, by another node") {
		t.Errorf("status %d: %s", status, d.Stderr)
	}
	late := clitest.StartEnv(t, append(env, listenEnv+"="+host+":4001"), os.Args[0])
	late.Line(late.Stdout, "failed:")
}

// An application gives its port alone, which is one of rdsd's only address, or a host name,
// and is told whose addresses there are if they are not that host's.
func TestApplicationListensByPortAndByName(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	run, host := filepath.Join(rdstest.Dir(t), "rds"), randomHost()
	env := []string{"RDS_RUNTIME_DIR=" + run, "RDS_SOCKET=", "RDS_CONTROL=none", "RDS_PROVIDER="}
	d := clitest.StartEnv(t, env, bin.Path("rdsd"), "--listen", host)
	d.Line(d.Stderr, "ready")
	app := clitest.StartEnv(t, append(env, listenEnv+"=:4000"), os.Args[0])
	if line := app.Line(app.Stdout, ""); line != "bound "+host+":4000" {
		t.Error(line)
	}
	app = clitest.StartEnv(t, append(env, listenEnv+"=localhost:4001"), os.Args[0])
	const want = "failed: rds: listen 127.0.0.1:4001: localhost: cannot assign requested address: it is not an address of rdsd, which has "
	if line := app.Line(app.Stdout, ""); line != want+host {
		t.Error(line)
	}
}
