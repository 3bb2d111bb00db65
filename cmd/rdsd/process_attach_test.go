//go:build live

package main

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

// An application attaches under the mode, the limits and the rules of the
// file, is seen in the reports, and gets what a reload allows.
func TestApplicationAttaches(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	tmp := rdstest.Dir(t)
	attach, ctl := filepath.Join(tmp, "a.sock"), filepath.Join(tmp, "c.sock")
	text := "listen = ['127.22.8.5']\nport = 17208\nsocket_mode = '0600'\ncontrol_mode = '0600'\n[sessions]\nmax = 1\n"
	rule := "[[ports]]\nrange = '4000-4010'\nusers = [" + strconv.Itoa(os.Getuid()+1) + "]\n"
	file := write(t, text+rule)
	d := daemonAt(t, "--config", file, "--socket", attach, "--control", ctl)
	for _, path := range []string{attach, ctl} {
		if info, err := os.Lstat(path); err != nil || info.Mode() != fs.ModeSocket|0o600 {
			t.Errorf("%s: mode %v, %v", path, info.Mode(), err)
		}
	}
	c := clientOf(t, attach)
	if second, err := rds.Dial(attach); err == nil {
		second.Close()
		t.Error("a second application although max is 1")
	}
	at := netip.MustParseAddr("127.22.8.5")
	if s, err := c.Bind(netip.AddrPortFrom(at, 4005)); !errors.Is(err, syscall.EACCES) {
		t.Errorf("bound %v, %v: the port is another user's", s, err)
	}
	free, err := c.Bind(netip.AddrPortFrom(at, 4011))
	must(t, err)
	info, err := rds.FetchInfo(context.Background(), ctl)
	must(t, err)
	if len(info.Sessions) != 1 || info.Sessions[0].PID != os.Getpid() || info.Sessions[0].Sockets != 1 {
		t.Errorf("sessions %+v", info.Sessions)
	}
	if len(info.Sockets) != 1 || info.Sockets[0].PID != os.Getpid() || info.Sockets[0].Bound != free.LocalAddrPort() {
		t.Errorf("sockets %+v", info.Sockets)
	}

	must(t, os.WriteFile(file, []byte(strings.Replace(text, "max = 1", "max = 2", 1)), 0o600))
	d.Signal(syscall.SIGHUP)
	d.Line(d.Stderr, `reloaded	{"changed": ["sessions.max", "ports"]}`)
	if _, err := c.Bind(netip.AddrPortFrom(at, 4005)); err != nil {
		t.Errorf("the rule is gone and still holds: %v", err)
	}
	clientOf(t, attach)

	d.Signal(syscall.SIGTERM)
	d.Line(d.Stderr, `applications cut off	{"sessions": 2}`)
	if status := d.Wait(); status != 0 {
		t.Errorf("status %d: %s", status, d.Stderr)
	}
	for _, path := range []string{attach, ctl} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", path, err)
		}
	}
}

// What an application has sent is delivered before the daemon ends.
func TestDaemonDrainsApplications(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	attach := filepath.Join(rdstest.Dir(t), "a.sock")
	d := daemonAt(t, "--listen", "127.22.9.5", "--port", "17209", "--socket", attach, "--drain", "20s")
	to := bind(t, nodeOf(t, rds.Config{Port: 17209}), "127.22.9.6:4000")
	from := bind(t, clientOf(t, attach), "127.22.9.5:4000")
	const messages = 200
	for range messages {
		must(t, from.Send(context.Background(), to.LocalAddrPort(), make([]byte, 1000)))
	}
	d.Signal(syscall.SIGTERM)
	if status := d.Wait(); status != 0 || strings.Contains(d.Stderr.String(), "unacknowledged") {
		t.Errorf("status %d: %s", status, d.Stderr)
	}
	for i := range messages {
		m, err := to.TryRecv() // all was acknowledged, so that it is there
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		m.Release()
	}
}
