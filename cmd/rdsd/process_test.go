//go:build live

package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
)

func TestDaemonAnswersAndStops(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	ctl := filepath.Join(rdstest.Dir(t), "c.sock")
	d := daemonAt(t, "--listen", "127.22.1.5,127.22.1.6", "--port", "17201", "--control", ctl)

	for _, host := range []string{"127.22.1.5", "127.22.1.6"} {
		status, stdout, stderr := clitest.Run(t, bin.Path("rdsping"), "--port", "17201", "-c", "2", "-i", "1ms", "-I", "127.22.1.4", host)
		if status != 0 {
			t.Fatalf("rdsping: status %d, %s%s", status, stdout, stderr)
		}
	}
	if pings := counterOf(t, ctl, "recv_ping"); pings < 4 {
		t.Errorf("recv_ping %d, want at least 4", pings)
	}

	d.Signal(syscall.SIGHUP)
	d.Line(d.Stderr, "nothing to reload")
	if !strings.Contains(d.Stderr.String(), `"socket": ""`) {
		t.Errorf("applications can attach:\n%s", d.Stderr)
	}
	d.Signal(syscall.SIGTERM)
	if status := d.Wait(); status != 0 || d.Stdout.String() != "" {
		t.Errorf("status %d, stdout %q", status, d.Stdout)
	}
	if _, err := os.Lstat(ctl); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the control socket is still there: %v", err)
	}
}

func TestDaemonReadsFile(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	file := write(t, "listen = [\"127.22.2.5\"]\nport = 1\ncontrol = \"none\"\nping = false\n[log]\nformat = \"json\"\n")
	d := daemonAt(t, "--config", file, "--port", "17202")
	status, stdout, _ := clitest.Run(t, bin.Path("rdsping"), "--port", "17202", "-c", "1", "-W", "300ms", "-I", "127.22.2.4", "127.22.2.5")
	if status != 1 {
		t.Errorf("pings are answered although the file says no: %s", stdout)
	}
	d.Signal(os.Interrupt)
	if status := d.Wait(); status != 0 {
		t.Errorf("status %d", status)
	}
	for line := range strings.Lines(d.Stderr.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
}

// The daemon's own addresses and its peers may be given by name, in flags and in the file.
func TestHostsByName(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	file := write(t, "listen = ['localhost', '127.22.5.1']\npeers = ['localhost=tcp']\nport = 17205\nsocket = 'none'\ncontrol = 'none'\n")
	d := clitest.Start(t, bin.Path("rdsd"), "--config", file)
	for _, want := range []string{"127.0.0.1", "127.22.5.1"} {
		if line := d.Line(d.Stderr, "listening"); !strings.Contains(line, `"`+want+`"`) {
			t.Errorf("%s, want %s", line, want)
		}
	}
	d.Line(d.Stderr, "ready")
	status, _, stderr := clitest.Run(t, bin.Path("rdsd"), "--listen", "no-such-host.invalid", "--peer", "nor-this.invalid=tcp", "--npaths", "2", "--socket", "none", "--control", "none")
	for _, want := range []string{"rdsd: listen: ", "host no-such-host.invalid", "; peers: ", "host nor-this.invalid", "; npaths: 2 is neither 1 nor 8\n"} {
		if status != statusConfig || !strings.Contains(stderr, want) { // there may be no resolver
			t.Errorf("status %d: %s", status, stderr)
		}
	}
}

func TestVersionOfDaemonAndTools(t *testing.T) {
	t.Parallel()
	for _, c := range []string{"rdsd", "rdsping", "rdsinfo", "rdsinfo why"} {
		name, sub, _ := strings.Cut(c, " ")
		status, stdout, stderr := clitest.Run(t, bin.Path(name), append(strings.Fields(sub), "--version")...)
		if status != 0 || stderr != "" || !strings.HasPrefix(stdout, name+" ") || !strings.Contains(stdout, runtime.Version()) || strings.Count(stdout, "\n") != 1 {
			t.Errorf("%s: status %d, %s%s", c, status, stdout, stderr)
		}
	}
}

// The file is read again on SIGHUP, under the flags of the command line.
func TestDaemonReloads(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	file := write(t, "listen = ['127.22.5.5']\n")
	d := daemonAt(t, "--config", file, "--port", "17205", "--drain", "2s")
	again := func(text string) {
		t.Helper()
		must(t, os.WriteFile(file, []byte(text), 0o600))
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
