//go:build !live

package daemon

import (
	"errors"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rds-go/rds/internal/client"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/rds/info"
)

// dials waits until the daemon lets one more in, or returns why it does not. The
// daemon hears of the end of a session a moment after it.
func dials(t testing.TB, path string) *client.Client {
	t.Helper()
	var c *client.Client
	rdstest.Eventually(t, "room for a session", func() bool {
		var err error
		c, err = client.Dial(path)
		return err == nil
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestSessionLimits(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]config.Service{"all": {MaxSessions: 2}, "of a user": {MaxSessionsPerUID: 2}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, l *lab) {
				_, svc, path := served(t, l, config.Node{}, cfg)
				a, b := dialed(t, path), dialed(t, path)
				_, err := client.Dial(path)
				rdstest.WantErr(t, "the third", err, datagram.ErrTooMany, syscall.EMFILE)
				rdstest.Must(t, a.Close())
				c := dials(t, path)
				_, err = client.Dial(path)
				rdstest.WantErr(t, "after one has gone", err, datagram.ErrTooMany)
				rdstest.Must(t, svc.Reload(config.Service{}))
				dialed(t, path)
				for _, x := range []*client.Client{b, c} { // they still work
					if _, err := x.Info(); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

func TestSocketLimit(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		_, _, path := served(t, l, config.Node{}, config.Service{MaxSockets: 2})
		a, b := dialed(t, path), dialed(t, path)
		at := rdstest.NewAddr()
		s := bound(t, a, rdstest.AddrOf(at, 0))
		bound(t, a, rdstest.AddrOf(at, 0))
		_, err := a.Bind(rdstest.AddrOf(at, 0))
		rdstest.WantErr(t, "the third", err, datagram.ErrTooMany, syscall.EMFILE)
		bound(t, b, rdstest.AddrOf(at, 0)) // another application has its own
		s.SetLinger(0)
		rdstest.Must(t, s.Close())
		bound(t, a, rdstest.AddrOf(at, 0))
	})
}

func TestPortRules(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		uid := uint32(os.Getuid())
		_, svc, path := served(t, l, config.Node{}, config.Service{Ports: []config.PortRule{
			{First: 100, Last: 199, UIDs: []uint32{uid + 1}},
			{First: 150, Last: 150, UIDs: []uint32{uid}},
			{First: 200, Last: 200, GIDs: []uint32{uint32(os.Getgid())}},
			{First: 1000, Last: 65000, UIDs: []uint32{uid + 1}},
		}})
		c := dialed(t, path)
		at := rdstest.NewAddr()
		for port, want := range map[uint16]error{
			99: nil, 100: datagram.ErrPermission, 149: datagram.ErrPermission, 150: nil, 151: datagram.ErrPermission, 199: datagram.ErrPermission, 200: nil, 65001: nil,
		} {
			s, err := c.Bind(rdstest.AddrOf(at, port))
			if !errors.Is(err, want) {
				t.Errorf("port %d: %v", port, err)
			}
			if want != nil {
				rdstest.WantErr(t, "bind", err, want, syscall.EACCES)
			} else if err == nil && s.LocalAddrPort().Port() != port {
				t.Error(s.LocalAddrPort())
			}
		}
		for range 20 { // a port of the daemon's choice is one the user may have
			if port := bound(t, c, rdstest.AddrOf(at, 0)).LocalAddrPort().Port(); port >= 1000 && port <= 65000 || port >= 100 && port < 200 && port != 150 {
				t.Errorf("port %d is reserved for others", port)
			}
		}
		rdstest.Must(t, svc.Reload(config.Service{}))
		bound(t, c, rdstest.AddrOf(at, 100))
	})
}

// A daemon that drains takes nobody and nothing new; sessions go on until it closes.
func TestDraining(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		n, svc, path := served(t, l, config.Node{Linger: 20 * time.Millisecond}, config.Service{})
		c := dialed(t, path)
		s := bound(t, c, rdstest.AddrOf(rdstest.NewAddr(), 100))
		rdstest.MustSend(t, s, rdstest.Nowhere(), []byte("12345"))
		// What the daemon has not taken is left on the ring, for the next one.
		rdstest.Eventually(t, "the daemon has taken the message", func() bool {
			report, err := n.Info()
			return err == nil && slices.ContainsFunc(report.Sockets, func(i info.Socket) bool { return i.SendQueued == 5 })
		})
		var d *datagram.DroppedError
		if err := svc.Drain(); !errors.As(err, &d) || d.Messages != 1 || d.Bytes != 5 {
			t.Errorf("Drain: %v", err)
		}
		_, err := client.Dial(path)
		rdstest.WantErr(t, "Dial", err)
		_, err = c.Bind(rdstest.AddrOf(rdstest.NewAddr(), 100))
		rdstest.WantErr(t, "Bind", err)
		if info, err := c.Info(); err != nil || len(info.Sessions) != 1 {
			t.Errorf("%d sessions: %v", len(info.Sessions), err)
		}
	})
}

// What a daemon that drains gives up is logged for each peer: what peers have not
// acknowledged, and what was received and nobody took.
func TestDrainLogsWhatIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		core, logs := observer.New(zap.WarnLevel)
		n, svc, path := served(t, l, config.Node{Linger: 20 * time.Millisecond, Logger: zap.New(core)}, config.Service{})
		sender := bound(t, dialed(t, path), rdstest.AddrOf(rdstest.NewAddr(), 100))
		dead := rdstest.Nowhere()
		rdstest.MustSend(t, sender, dead, []byte("12345"))
		unread, far := l.bind(n), l.bindOne(config.Node{})
		for range 3 {
			rdstest.MustSend(t, far, unread.LocalAddrPort(), []byte("1234"))
		}
		rdstest.Eventually(t, "all to be taken", func() bool {
			report, err := n.Info()
			return err == nil && slices.ContainsFunc(report.Sockets, func(i info.Socket) bool { return i.SendQueued == 5 }) && halfOf(unread).Queue.Count.Load() == 3
		})
		if err := svc.Drain(); err == nil {
			t.Error("nothing is left")
		}
		for _, want := range []struct {
			text            string
			peer            netip.Addr
			messages, bytes int64
		}{
			{"stopped with unacknowledged messages", dead.Addr(), 1, 5},
			{"stopped with messages that applications did not take", far.LocalAddrPort().Addr(), 3, 12},
		} {
			all := logs.FilterMessage(want.text).All()
			if len(all) != 1 {
				t.Errorf("%d lines %q", len(all), want.text)
				continue
			}
			if f := all[0].ContextMap(); f["peer"] != want.peer.String() || f["messages"] != want.messages || f["bytes"] != want.bytes {
				t.Errorf("%s: %v", want.text, f)
			}
		}
	})
}

// Info through a Client is the daemon's, sessions and all, however long.
func TestClientInfo(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		n, _, path := served(t, l, config.Node{}, config.Service{})
		c := dialed(t, path)
		at := rdstest.NewAddr()
		const count = 400 // more than one part of a report
		for range count {
			bound(t, c, rdstest.AddrOf(at, 0))
		}
		report, err := c.Info()
		rdstest.Must(t, err)
		own, err := n.Info()
		rdstest.Must(t, err)
		if report.Provider != info.ProviderDaemon || len(report.Sockets) != count || len(report.Counters) != len(own.Counters) || len(report.Sessions) != 1 {
			t.Fatalf("%s: %d sockets, %d counters, %d sessions", report.Provider, len(report.Sockets), len(report.Counters), len(report.Sessions))
		}
		if x := report.Sessions[0]; x.PID != os.Getpid() || x.Sockets != count {
			t.Errorf("%+v", x)
		}
	})
}
