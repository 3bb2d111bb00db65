//go:build live

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

// An allow-list from the file keeps strangers out, on both ports and for applications; a
// SIGHUP changes it, ends the connections of those that are no longer allowed, and takes
// them again; the reports say so.
func TestDaemonAllowsOnlyListedPeers(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	tmp := rdstest.Dir(t)
	attach, ctl := filepath.Join(tmp, "a.sock"), filepath.Join(tmp, "c.sock")
	file := filepath.Join(tmp, "rdsd.toml")
	configure := func(list string) {
		t.Helper()
		must(t, os.WriteFile(file, []byte("listen = ['127.22.41.5']\nport = 17241\n[admission]\nallow = ["+list+"]\n"), 0o600))
	}
	configure("'127.22.41.4', '127.22.42.0/24'")
	d := daemonAt(t, "--config", file, "--socket", attach, "--control", ctl)
	ping := func(from, wire string) int {
		status, _, _ := clitest.Run(t, bin.Path("rdsping"), "--provider", "node", "--port", "17241", "--wire", wire, "-c", "1", "-W", "1s", "-I", from, "127.22.41.5")
		return status
	}
	for _, wire := range []string{"tcp", "xrc"} {
		if ping("127.22.41.4", wire) != 0 || ping("127.22.42.77", wire) != 0 {
			t.Errorf("a peer that is allowed has no answer over %s", wire)
		}
		if ping("127.22.41.3", wire) != 1 {
			t.Errorf("a stranger has an answer over %s", wire)
		}
	}

	// An application, and a peer that it talks to until the list changes.
	peer := nodeOf(t, rds.Config{Port: 17241, Addresses: []netip.Addr{netip.MustParseAddr("127.22.41.4")}})
	to := bind(t, peer, "127.22.41.4:4000")
	s := bind(t, clientOf(t, attach), "127.22.41.5:4000")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	exchange := func(text string) {
		t.Helper()
		must(t, s.Send(ctx, to.LocalAddrPort(), []byte(text)))
		m, err := to.Recv(ctx)
		if err != nil || string(m.Data) != text {
			t.Fatalf("%q, %v, want %q", m.Data, err, text)
		}
		m.Release()
	}
	exchange("hello")
	if err := s.Send(ctx, netip.MustParseAddrPort("127.22.41.3:4000"), nil); !errors.Is(err, syscall.EACCES) {
		t.Errorf("sending to a stranger: %v", err)
	}
	configure("'127.22.42.0/24'")
	d.Signal(syscall.SIGHUP)
	d.Line(d.Stderr, "were reset")
	if line := d.Line(d.Stderr, "allow-list changed"); !strings.Contains(line, `"connections_ended": 1`) {
		t.Errorf("%s", line)
	}
	d.Line(d.Stderr, "reloaded")
	if err := s.Send(ctx, to.LocalAddrPort(), nil); !errors.Is(err, syscall.EACCES) {
		t.Errorf("sending to a peer that is no longer allowed: %v", err)
	}
	status, stdout, stderr := clitest.Run(t, bin.Path("rdsinfo"), "--control", ctl, "-A")
	if status != 0 || !strings.Contains(stdout, "127.22.42.0/24     yes") || !strings.Contains(stdout, "127.22.41.0/24       -") {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
	if _, stdout, _ := clitest.Run(t, bin.Path("rdsinfo"), "--control", ctl, "-c"); !strings.Contains(stdout, "conn_not_allowed") || !strings.Contains(stdout, "send_not_allowed") {
		t.Errorf("no counters: %s", stdout)
	}
	configure("")
	d.Signal(syscall.SIGHUP)
	d.Line(d.Stderr, "allow-list changed")
	exchange("again")
	if ping("127.22.41.3", "xrc") != 0 {
		t.Error("a stranger has no answer although everybody is allowed")
	}
	terminate(t, d)
}

// Thousands of connections of strangers leave nothing: no peers, no descriptors, a line or
// two in the log, and a table that is bounded.
func TestStrangersAreTurnedAway(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	ctl := filepath.Join(rdstest.Dir(t), "c.sock")
	d := daemonAt(t, "--listen", "127.22.43.5", "--port", "17243", "--control", ctl, "--allow", "127.22.43.4", "--allow", "192.0.2.0/24")
	const count = 4000
	to := []string{"127.22.43.5:17243", "127.22.43.5:17242"}
	for i := range count {
		from := &net.TCPAddr{IP: net.IPv4(127, 80, byte(i/3), byte(1+i%250))}
		c, err := (&net.Dialer{LocalAddr: from, Timeout: 10 * time.Second}).Dial("tcp", to[i%2])
		if err != nil {
			continue // reset already
		}
		_, _ = c.Write(make([]byte, 48))
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}
	var info rds.Info
	rdstest.Holds(rdstest.Patience, func() bool {
		var err error
		info, err = rds.FetchInfo(context.Background(), ctl)
		must(t, err)
		return info.Admission.Rejected == count
	})
	if a := info.Admission; a.Rejected != count || len(a.Prefixes) > 1024 || len(info.Connections) != 0 {
		t.Errorf("%d of %d were rejected, %d prefixes, %d connections", a.Rejected, count, len(a.Prefixes), len(info.Connections))
	}
	status, stdout, stderr := clitest.Run(t, bin.Path("rdsping"), "--provider", "node", "--port", "17243", "-c", "1", "-I", "127.22.43.4", "127.22.43.5")
	if status != 0 {
		t.Errorf("a peer that is allowed has no answer: %s%s", stdout, stderr)
	}
	if fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.PID())); err != nil || len(fds) > 100 {
		t.Errorf("%d descriptors, %v", len(fds), err)
	}
	d.Signal(syscall.SIGTERM)
	d.Wait()
	if n := len(d.Stderr.String()); n > 10_000 {
		t.Errorf("%d bytes of log: %.2000s", n, d.Stderr)
	}
}
