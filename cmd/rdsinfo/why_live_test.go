//go:build live

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

// patience is how long tests wait for what must happen.
const patience = time.Minute

// waits is what rdsinfo why says.
func waits(t *testing.T, ctl string, args ...string) []rds.WaitInfo {
	t.Helper()
	status, stdout, stderr := info(t, append([]string{"why", "--json", "--control", ctl}, args...)...)
	var out struct {
		Time  time.Time      `json:"time"`
		Waits []rds.WaitInfo `json:"waits"`
	}
	if err := json.Unmarshal([]byte(stdout), &out); err != nil || status != 0 || out.Time.IsZero() || out.Waits == nil {
		t.Fatalf("status %d, %v: %s%s", status, err, stdout, stderr)
	}
	return out.Waits
}

// await returns the first wait for this cause that is as it should be, as soon as rdsinfo why
// tells of one.
func await(t *testing.T, ctl, cause string, ok func(*rds.WaitInfo) bool) rds.WaitInfo {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for start := time.Now(); ; <-tick.C {
		all := waits(t, ctl)
		for i := range all {
			if w := &all[i]; w.Cause == cause && ok(w) {
				if w.Hint == "" || w.Since.IsZero() || w.Since.After(time.Now()) || w.Since.Before(start.Add(-patience)) {
					t.Errorf("no hint, or a time that cannot be: %+v", *w)
				}
				return *w
			}
		}
		if time.Since(start) > patience {
			t.Fatalf("no wait for %s as expected in %+v", cause, all)
		}
	}
}

// send sends in the background until the test ends; the sender may block.
func send(t *testing.T, s *rds.Socket, to netip.AddrPort, sizes ...int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for _, n := range sizes {
			if s.Send(ctx, to, make([]byte, n)) != nil {
				return
			}
		}
	}()
}

// On this host rdsinfo says whose the congested port is.
func TestWhyNamesTheOwnerOfACongestedPort(t *testing.T) {
	t.Parallel()
	_, ctl, path := serving(t, 17414, rds.Config{}, rds.ServiceConfig{})
	from, to := bind(t, attach(t, path), "127.21.14.1:4000"), bind(t, attach(t, path), "127.21.14.1:7000")
	rdstest.Must(t, to.SetReadBuffer(1000))
	send(t, from, to.LocalAddrPort(), slices.Repeat([]int{500}, 100_000)...)
	w := await(t, ctl, rds.CauseReceiver, func(w *rds.WaitInfo) bool { return w.Local == to.LocalAddrPort() })
	if w.PID != os.Getpid() || w.Command == "" || w.Bytes <= 1000 {
		t.Errorf("the receiver: %+v", w)
	}
	w = await(t, ctl, rds.CauseCongested, func(w *rds.WaitInfo) bool { return w.Senders == 1 })
	if w.Local != from.LocalAddrPort() || w.Remote != to.LocalAddrPort() || w.OwnerPID != os.Getpid() || w.Owner == "" {
		t.Errorf("the sender: %+v", w)
	}
}

// serving is a node that applications attach to.
func serving(t *testing.T, port uint16, cfg rds.Config, scfg rds.ServiceConfig) (n *rds.Node, ctl, path string) {
	t.Helper()
	n, ctl = started(t, port, cfg)
	scfg.Path = filepath.Join(filepath.Dir(ctl), "a.sock")
	svc, err := rds.NewService(n, scfg)
	rdstest.Must(t, err)
	t.Cleanup(func() { svc.Close() })
	return n, ctl, scfg.Path
}

func attach(t *testing.T, path string) *rds.Client {
	t.Helper()
	c, err := rds.Dial(path)
	rdstest.Must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// An application on XRC that takes nothing: peers hold what they have for it.
func TestWhyHeld(t *testing.T) {
	t.Parallel()
	a, ctlA := started(t, 17415, rds.Config{Wire: rds.WireXRC})
	_, ctlB, path := serving(t, 17415, rds.Config{Wire: rds.WireXRC, ReceiveBuffer: 1 << 30}, rds.ServiceConfig{ReceiveArena: 1 << 20, ReceiveBacklog: 64 << 10})
	from, to := bind(t, a, "127.21.15.1:4000"), bind(t, attach(t, path), "127.21.15.2:7000")
	send(t, from, to.LocalAddrPort(), slices.Repeat([]int{32 << 10}, 2000)...)
	w := await(t, ctlA, rds.CauseHeld, func(w *rds.WaitInfo) bool { return w.Senders == 1 })
	if w.Local != from.LocalAddrPort() || w.Remote != to.LocalAddrPort() {
		t.Errorf("the sender: %+v", w)
	}
	w = await(t, ctlB, rds.CauseReceiver, func(w *rds.WaitInfo) bool { return w.Bytes > 64<<10 && !w.Local.IsValid() })
	if w.PID != os.Getpid() || w.Command == "" {
		t.Errorf("the receiver: %+v", w)
	}
}

func TestWhyBudgetOfApplication(t *testing.T) {
	t.Parallel()
	_, ctl, path := serving(t, 17417, rds.Config{}, rds.ServiceConfig{SendBudget: 1000})
	s := bind(t, attach(t, path), "127.21.17.1:4000")
	send(t, s, netip.MustParseAddrPort("127.21.17.9:7000"), 900, 900, 900)
	w := await(t, ctl, rds.CauseBudget, func(w *rds.WaitInfo) bool { return w.Senders == 1 })
	if w.PID != os.Getpid() || w.Command == "" || w.Local != s.LocalAddrPort() || w.Remote.Addr().String() != "127.21.17.9" {
		t.Errorf("%+v", w)
	}
}

// A peer whose rdsd is stopped takes nothing of what was written.
func TestWhyWindow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		wire  rds.Wire
		net   string
		sizes []int

		detail string
	}{
		{rds.WireXRC, "127.21.19.", []int{100}, "its RDS does not answer"},
		{rds.WireTCP, "127.21.20.", slices.Repeat([]int{1 << 20}, 60), "TCP window is closed"}, // more than the kernels take
	} {
		t.Run(string(c.wire), func(t *testing.T) {
			t.Parallel()
			n, ctl := started(t, 17419, rds.Config{Wire: c.wire, SendBuffer: 64 << 20, TCP: rds.TCPConfig{SendBuffer: 64 << 10}})
			d := clitest.StartEnv(t, []string{"RDS_SOCKET=none", "RDS_CONTROL=none"}, bin.Path("rdsd"), "--listen", c.net+"2", "--port", "17419", "--wire", string(c.wire))
			ready := d.Line(d.Stderr, "ready")
			s := bind(t, n, c.net+"1:4000")
			to := netip.MustParseAddrPort(c.net + "2:7000")
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			rdstest.Must(t, s.SendMessage(ctx, &rds.Outgoing{To: to, Data: []byte("first"), Notify: true}))
			if m, err := s.Recv(ctx); err != nil || m.Kind != rds.KindStatus { // the connection works
				t.Fatal(m, err)
			}
			d.Signal(syscall.SIGSTOP)
			awaitStopped(t, ready)
			defer d.Signal(syscall.SIGCONT)
			send(t, s, to, c.sizes...)
			w := await(t, ctl, rds.CauseWindow, func(w *rds.WaitInfo) bool { return w.Bytes >= c.sizes[0] })
			if w.Local != s.LocalAddrPort() || w.Remote != to || time.Since(w.Since) < time.Second {
				t.Errorf("%+v", w)
			}
			if !strings.Contains(w.Detail, c.detail) {
				t.Errorf("detail %q, want %q", w.Detail, c.detail)
			}
		})
	}
}

// A peer that has no XRC.
func TestWhyFallenBack(t *testing.T) {
	t.Parallel()
	a, ctl := started(t, 17424, rds.Config{})
	b, _ := started(t, 17424, rds.Config{Wire: rds.WireTCP})
	from, to := bind(t, a, "127.21.24.1:4000"), bind(t, b, "127.21.24.2:7000")
	send(t, from, to.LocalAddrPort(), 1)
	w := await(t, ctl, rds.CauseFallenBack, func(w *rds.WaitInfo) bool { return w.Detail != "" })
	if w.Local.Addr() != from.LocalAddrPort().Addr() || w.Remote.Addr() != to.LocalAddrPort().Addr() || !strings.Contains(w.Detail, "xrc") {
		t.Errorf("%+v", w)
	}
}

// Messages for a port that nobody is bound to are refused over XRC.
func TestWhyRefused(t *testing.T) {
	t.Parallel()
	a, ctl := started(t, 17425, rds.Config{Wire: rds.WireXRC})
	b, _ := started(t, 17425, rds.Config{Wire: rds.WireXRC})
	from, to := bind(t, a, "127.21.25.1:4000"), bind(t, b, "127.21.25.2:7000")
	nobody := netip.AddrPortFrom(to.LocalAddrPort().Addr(), 9)
	if status, stdout, _ := info(t, "why", "--control", ctl); status != 0 || stdout != "nothing waits\n" {
		t.Errorf("status %d, %s", status, stdout)
	}
	send(t, from, nobody, 100, 200, 300)
	w := await(t, ctl, rds.CauseRefused, func(w *rds.WaitInfo) bool { return w.Messages == 3 })
	if w.Local != from.LocalAddrPort() || w.Remote != nobody || w.Last.Before(w.Since) || w.Last.After(time.Now()) {
		t.Errorf("%+v", w)
	}
	for addr, want := range map[string]int{"127.21.25.2": 1, "127.21.25.1": 1, "127.21.25.8": 0, "localhost": 0} {
		if got := waits(t, ctl, addr); len(got) != want {
			t.Errorf("%s: %+v", addr, got)
		}
	}
	_, stdout, _ := info(t, "why", "127.21.25.2", "--control", ctl)
	for _, part := range []string{"127.21.25.1:4000 sends to port 9 of 127.21.25.2, which nobody is bound to, since ", ", 3 messages; the last ", " ago. start the application"} {
		if !strings.Contains(stdout, part) {
			t.Errorf("no %q in %s", part, stdout)
		}
	}
	for port := range uint16(100) { // the ports that refused last are remembered
		rdstest.Must(t, from.Send(context.Background(), netip.AddrPortFrom(nobody.Addr(), 10+port), nil))
	}
	await(t, ctl, rds.CauseRefused, func(w *rds.WaitInfo) bool { return w.Remote.Port() == 109 })
	if all := waits(t, ctl); len(all) != 64 || slices.ContainsFunc(all, func(w rds.WaitInfo) bool { return w.Remote == nobody }) {
		t.Errorf("%d ports are listed, the first is %v", len(all), all[0].Remote)
	}
}

// awaitStopped returns when all threads of the daemon that has said this have stopped: one
// that still runs may take a message.
func awaitStopped(t *testing.T, ready string) {
	t.Helper()
	_, pid, _ := strings.Cut(ready, `"pid": `)
	pid, _, _ = strings.Cut(pid, "}")
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for start := time.Now(); ; <-tick.C {
		tasks, err := filepath.Glob("/proc/" + pid + "/task/*/stat")
		if err != nil || len(tasks) == 0 || time.Since(start) > patience {
			t.Fatalf("process %q has not stopped: %v", pid, err)
		}
		if !slices.ContainsFunc(tasks, func(task string) bool {
			b, err := os.ReadFile(task)
			return err == nil && !strings.Contains(string(b), ") T ")
		}) {
			return
		}
	}
}

// Every path tells what the kernel knows of its connection, on both wires.
func TestPathsTellTCPInfo(t *testing.T) {
	t.Parallel()
	for i, wire := range []rds.Wire{rds.WireXRC, rds.WireTCP} {
		t.Run(string(wire), func(t *testing.T) {
			t.Parallel()
			net := []string{"127.21.21.", "127.21.22."}[i]
			a, ctl := started(t, 17421, rds.Config{Wire: wire, Paths: 8})
			b, _ := started(t, 17421, rds.Config{Wire: wire, Paths: 8})
			to := bind(t, b, net+"2:7000")
			for port := range 32 { // some for each path
				s := bind(t, a, fmt.Sprintf("%s1:%d", net, 4000+port))
				send(t, s, to.LocalAddrPort(), 1000)
			}
			for range 32 {
				m, err := to.Recv(context.Background())
				rdstest.Must(t, err)
				m.Release()
			}
			var c rds.ConnectionInfo
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for start := time.Now(); len(c.TCP) < 8 && time.Since(start) < patience; <-tick.C {
				_, stdout, stderr := info(t, "-n", "--json", "--control", ctl)
				var i rds.Info
				if err := json.Unmarshal([]byte(stdout), &i); err != nil || len(i.Connections) != 1 {
					t.Fatalf("%v: %s%s", err, stdout, stderr)
				}
				c = i.Connections[0]
			}
			if len(c.TCP) != 8 {
				t.Fatalf("%d paths tell of TCP: %+v", len(c.TCP), c)
			}
			for k, p := range c.TCP {
				if p.Path != k || p.RTT <= 0 || p.RTT > 10e6 || p.MinRTT <= 0 || p.Cwnd == 0 || p.MSS == 0 || p.DeliveryRate == 0 || p.ReceiverLimited < 0 || p.ReceiverLimited > 1 {
					t.Errorf("path %d: %+v", k, p)
				}
			}
			if _, stdout, _ := info(t, "-nv", "--control", ctl); strings.Count(stdout, "        tcp: rtt ") != 8 {
				t.Errorf("-nv says\n%s", stdout)
			}
		})
	}
}

func TestWhyArguments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"why", "10.0.0.256"}, `rdsinfo: "10.0.0.256": neither an IP address nor a host name (see rdsinfo --help)` + "\n"},
		{[]string{"why", "10.0.0.1", "2"}, `rdsinfo: unexpected argument "2" (see rdsinfo --help)` + "\n"},
		{[]string{"why", "--provider", "kernel"}, "rdsinfo: why is about nodes: Linux does not tell (see rdsinfo --help)\n"},
	} {
		if status, stdout, stderr := info(t, c.args...); status != 2 || stdout != "" || stderr != c.want {
			t.Errorf("%q: status %d, %s%s", c.args, status, stdout, stderr)
		}
	}
}
