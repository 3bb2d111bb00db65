//go:build live

package main

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/rds-go/rds/internal/cli/clitest"
)

// The file is read again on SIGHUP, under the flags of the command line.
func TestDaemonReloads(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	file := write(t, "listen = ['127.22.5.5']\n")
	d := daemonAt(t, "--config", file, "--port", "17205", "--drain", "2s")
	again := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		d.Signal(syscall.SIGHUP)
	}
	again("listen = ['127.22.5.5']\nport = 1\nnpaths = 8\ndrain = '1s'\n[sessions]\nmax = 7\n[log]\nlevel = 'debug'\n")
	if line := d.Line(d.Stderr, "reloaded"); !strings.Contains(line, `{"changed": ["sessions.max", "log.level"]}`) {
		t.Errorf("the flags have lost, or more: %s", line)
	}
	if line := d.Line(d.Stderr, "needs a restart"); !strings.Contains(line, `{"keys": ["npaths"]}`) {
		t.Errorf("restart: %s", line)
	}
	again("listen = []\nnpaths = 3\n")
	if line := d.Line(d.Stderr, "not reloaded"); !strings.Contains(line, "listen: no address") || !strings.Contains(line, "; npaths: 3 is neither 1 nor 8") {
		t.Errorf("bad file: %s", line)
	}
	terminate(t, d)
}
