//go:build live

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/netlab"
)

// echo is a host with a server that sends back what it gets, at two ports, and a client.
type echo struct {
	*testing.T
	server, client *netlab.Host
}

func newEcho(t *testing.T) *echo {
	t.Helper()
	e := &echo{T: t}
	e.server, e.client = netlab.Pair(t)
	for _, port := range []int{16385, 18634} {
		e.server.Echo(port)
	}
	return e
}

// dial connects the client to a port.
func (e *echo) dial(port int) (c net.Conn) {
	e.Helper()
	var err error
	e.client.Do(func() { c, err = net.DialTimeout("tcp4", fmt.Sprintf("%v:%d", e.server.IP4, port), 10*time.Second) })
	if err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() { c.Close() })
	return c
}

// answered tells how long an octet takes to the server and back.
func answered(c net.Conn, limit time.Duration) (time.Duration, error) {
	began := time.Now()
	_ = c.SetDeadline(began.Add(limit))
	b := []byte{7}
	_, err := c.Write(b)
	if err == nil {
		_, err = io.ReadFull(c, b)
	}
	return time.Since(began), err
}

// begin starts the command for the server's host, and returns when the fault is there.
func (e *echo) begin(args ...string) *clitest.Process {
	e.Helper()
	p := clitest.Start(e.T, bin.Path("rdsfault"), append(args, "--netns", e.server.Name)...)
	p.Line(p.Stderr, "Ctrl-C ends it")
	return p
}

// Packets are lost until the count is reached; then the command ends, and says how many.
func TestDropEndsByCount(t *testing.T) {
	t.Parallel()
	e := newEcho(t)
	c := e.dial(16385)
	p := e.begin("drop", "--interface", "eth0", "--port", "16385", "--direction", "in", "--count", "2", "--json")
	d, err := answered(c, 20*time.Second)
	if err != nil || d < 200*time.Millisecond { // the first retransmission, which is lost too, comes after that
		t.Errorf("answered after %v: %v", d, err)
	}
	var r report
	if status := p.Wait(); status != 0 || json.Unmarshal([]byte(p.Stdout.String()), &r) != nil {
		t.Fatalf("status %d: %s%s", status, p.Stdout, p.Stderr)
	}
	if r.Fault != "drop" || r.Hit != 2 || r.Seen != 2 || r.Interface != "eth0" {
		t.Errorf("%s", p.Stdout)
	}
	if d, err := answered(c, 20*time.Second); err != nil || d > time.Second {
		t.Errorf("afterwards answered after %v: %v", d, err)
	}
}

// However the command ends, by its time, by a signal or killed, the fault ends with it, and
// connections of other ports never had it. Unless it is killed it says what it did.
func TestBlackholeEndsWithTheCommand(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]syscall.Signal{"time": 0, "interrupt": syscall.SIGINT, "terminate": syscall.SIGTERM, "kill": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEcho(t)
			c, other := e.dial(16385), e.dial(18634)
			limit := "1m"
			if end == 0 {
				limit = "700ms"
			}
			p := e.begin("blackhole", "--interface", "eth0", "--port", "16385", "--for", limit)
			var timeout net.Error
			if _, err := answered(c, 300*time.Millisecond); !errors.As(err, &timeout) || !timeout.Timeout() {
				t.Errorf("answered in a black hole: %v", err)
			}
			if _, err := answered(other, 10*time.Second); err != nil {
				t.Errorf("another port: %v", err)
			}
			if end != 0 {
				p.Signal(end)
			}
			status, want := p.Wait(), 0
			if end == syscall.SIGKILL {
				want = -1
			} else if out := p.Stdout.String(); !strings.HasPrefix(out, "eth0: dropped ") || strings.HasPrefix(out, "eth0: dropped 0 ") || strings.Count(out, "\n") != 1 {
				t.Errorf("it says %q", out)
			}
			if status != want {
				t.Errorf("status %d: %s", status, p.Stderr)
			}
			if _, err := answered(c, 20*time.Second); err != nil {
				t.Errorf("after the end: %v", err)
			}
		})
	}
}

// Abort resets the connections that are chosen, and no other.
func TestAbortChoosesConnections(t *testing.T) {
	t.Parallel()
	e := newEcho(t)
	c, other := e.dial(16385), e.dial(18634)
	for _, c := range []net.Conn{c, other} {
		if _, err := answered(c, 10*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	status, stdout, stderr := clitest.Run(t, bin.Path("rdsfault"), "abort", "--netns", e.server.Name, "--port", "16385", "--peer", e.client.IP4.String())
	if status != 0 || !strings.HasPrefix(stdout, "aborted 1 connections in ") {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
	if _, err := answered(c, 10*time.Second); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection: %v", err)
	}
	if _, err := answered(other, 10*time.Second); err != nil {
		t.Errorf("another one: %v", err)
	}
}

// What cannot begin says why in one line, and is exit status 2: no privilege, no such interface
// or namespace, a delay without the qdisc for it.
func TestFaultsThatCannotBegin(t *testing.T) {
	t.Parallel()
	e := newEcho(t)
	program := bin.Path("rdsfault")
	nobody := []string{"setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", program}
	for _, c := range []struct {
		as   []string
		args string
		want string
	}{
		{nobody, "drop --interface eth0", "rdsfault: faults by tcx: not permitted: needs CAP_BPF and CAP_NET_ADMIN"},
		{nobody, "abort", "not permitted: needs CAP_NET_ADMIN"},
		{[]string{program}, "drop --interface none", "none"},
		{[]string{program}, "drop --interface eth0 --netns none", "none"},
		{[]string{program}, "delay --interface eth0", "interface eth0 has the qdisc noqueue, and only fq delays packets"},
	} {
		args := e.server.Args(append(c.as, strings.Fields(c.args)...)...)
		status, stdout, stderr := clitest.Run(t, args[0], args[1:]...)
		if status != 2 || stdout != "" || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: status %d, %s%s; want %q", c.args, status, stdout, stderr, c.want)
		}
	}
}
