//go:build !live

package node

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/info"
)

// observed is a logger and what it got.
func observed() (*zap.Logger, *observer.ObservedLogs) {
	core, logs := observer.New(zap.InfoLevel)
	return zap.New(core), logs
}

// watches has a node's watchman look only when the test says so.
func watches(n *Node) (look func(at time.Time)) {
	w := &n.watchman
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	clear(w.episodes)
	w.looks = 0
	return func(at time.Time) {
		w.mu.Lock()
		defer w.mu.Unlock()
		n.lookLocked(at)
	}
}

// lines checks how many lines of this level begin so, and returns the last one as text.
func lines(t *testing.T, logs *observer.ObservedLogs, level zapcore.Level, text string, want int) string {
	t.Helper()
	got := logs.Filter(func(e observer.LoggedEntry) bool {
		return e.Level == level && strings.HasPrefix(e.Message, text)
	}).All()
	if len(got) != want {
		t.Errorf("%d lines %q, want %d", len(got), text, want)
	}
	if len(got) == 0 {
		return ""
	}
	return fmt.Sprint(got[len(got)-1].ContextMap())
}

func contains(t *testing.T, line string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(line, p) {
			t.Errorf("no %q in %s", p, line)
		}
	}
}

func TestLogTellsOfUnreachablePeerOnceAndThenInSum(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		log, logs := observed()
		l := newLoopLab(t)
		n := l.node(config.Node{Logger: log})
		look := watches(n)
		s, to := l.bind(n), rdstest.Nowhere()
		const text = "peer unreachable, and messages wait"
		begun := time.Now()
		look(begun.Add(time.Hour))
		lines(t, logs, zap.WarnLevel, text, 0)
		rdstest.MustSend(t, s, to, make([]byte, 7))
		rdstest.Eventually(t, "a failed attempt", func() bool { return rdstest.WaitOf(t, n, info.CauseUnreachable).Tries > 0 })
		begun = time.Now()
		for d := 2 * time.Second; d < 50*time.Second; d += time.Second {
			look(begun.Add(d))
		}
		line := lines(t, logs, zap.WarnLevel, text, 1)
		contains(t, line, "peer:"+to.Addr().String(), "connection refused", "messages:1", "bytes:7", "socket:"+s.LocalAddrPort().String())
		for d := 50 * time.Second; d < 180*time.Second; d += time.Second {
			look(begun.Add(d))
		}
		lines(t, logs, zap.WarnLevel, text, 2) // after 60 s, and next after 120 s more
		look(begun.Add(183 * time.Second))
		lines(t, logs, zap.WarnLevel, text, 3)
		far := l.bind(l.node(config.Node{}), to)
		rdstest.Expect(t, far, string(make([]byte, 7)))
		rdstest.Eventually(t, "the acknowledgement", func() bool { return halfOf(s).Account.Messages() == 0 })
		look(begun.Add(184 * time.Second))
		contains(t, lines(t, logs, zap.InfoLevel, "peer reachable again", 1), to.Addr().String())
		look(begun.Add(185 * time.Second))
		lines(t, logs, zap.InfoLevel, "peer reachable again", 1)
	})
}

func TestLogTellsOfCongestionOnceAndThenInSum(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		logA, logsA := observed()
		logB, logsB := observed()
		l := newLoopLab(t)
		a, b := l.bind(l.node(config.Node{Logger: logA})), l.bind(l.node(config.Node{Logger: logB}))
		lookA, lookB := watches(nodeOf(a)), watches(nodeOf(b))
		rdstest.Must(t, b.SetReadBuffer(1000))
		const sender, receiver = "a port of a peer is congested, and messages wait", "a socket is congested: its application does not receive"
		begun := time.Now()
		for round := range 3 {
			rdstest.Flood(t, a, b, 500)
			ctx, cancel := context.WithCancel(rdstest.Background(t))
			sent := make(chan error, 1)
			go func() { sent <- a.Send(ctx, b.LocalAddrPort(), []byte("x")) }()
			rdstest.Eventually(t, "a blocked sender", func() bool { return rdstest.WaitOf(t, nodeOf(a), info.CauseCongested).Senders == 1 })
			for d := range 3 {
				at := begun.Add(time.Duration(10*round+d+2) * time.Second)
				lookA(at)
				lookB(at)
			}
			cancel()
			<-sent
			ctx, cancel = context.WithCancel(rdstest.Background(t))
			drained := make(chan struct{})
			go func() {
				rdstest.Discard(ctx, b)
				close(drained)
			}()
			rdstest.Eventually(t, "the end of the congestion", func() bool {
				return !halfOf(b).Congested.Load() && halfOf(a).Node.PeerAt(0).takes(b.LocalAddrPort().Port())
			})
			cancel()
			<-drained // a drain that still ran would take what the next round sends
			at := begun.Add(time.Duration(10*round+8) * time.Second)
			lookA(at)
			lookB(at)
		}
		contains(t, lines(t, logsA, zap.WarnLevel, sender, 1), "peer:"+b.LocalAddrPort().Addr().String(), "port:4000", "senders:1", "socket:"+a.LocalAddrPort().String())
		contains(t, lines(t, logsB, zap.WarnLevel, receiver, 1), "socket:"+b.LocalAddrPort().String())
		lookA(begun.Add(70 * time.Second))
		lookB(begun.Add(70 * time.Second))
		contains(t, lines(t, logsA, zap.WarnLevel, sender, 2), "again:2", "longest:")
		contains(t, lines(t, logsB, zap.WarnLevel, receiver, 2), "again:2", "longest:")
	})
}

func TestLogTellsOfPeersRestart(t *testing.T) {
	t.Parallel()
	for _, w := range []config.Wire{config.WireXRC, config.WireTCP} {
		t.Run(string(w), func(t *testing.T) {
			rdstest.Bubble(t, func(t *testing.T) {
				log, logs := observed()
				l := newMemLab(t)
				a := l.bind(l.node(config.Node{Wire: w, Logger: log}))
				at := rdstest.AddrOf(rdstest.NewAddr(), 4000)
				for range 2 {
					b := l.bind(l.node(config.Node{Wire: w}), at)
					rdstest.MustSend(t, a, at, []byte("hello"))
					rdstest.MustSend(t, b, a.LocalAddrPort(), []byte("world"))
					rdstest.Expect(t, a, "world")
					rdstest.Expect(t, b, "hello")
					generation := nodeOf(b).Generation
					rdstest.Eventually(t, "the handshake", func() bool { return rdstest.Report(t, nodeOf(a)).Connections[0].Generation == generation })
					_ = nodeOf(b).Close()
				}
				rdstest.Eventually(t, "the line", func() bool { return logs.FilterMessage("peer restarted").Len() > 0 })
				contains(t, lines(t, logs, zap.InfoLevel, "peer restarted", 1), at.Addr().String())
			})
		})
	}
}

func TestLogTellsOfAddressesThatHaveGone(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		log, logs := observed()
		l := newLoopLab(t)
		n := l.node(config.Node{Logger: log})
		look := watches(n)
		here, gone := netip.MustParseAddr("127.77.0.1"), netip.MustParseAddr("10.77.0.1")
		l.bind(n, rdstest.AddrOf(here, 4000))
		l.bind(n, rdstest.AddrOf(gone, 4000))
		host := []net.Addr{&net.IPNet{IP: net.IPv4(127, 0, 0, 1), Mask: net.CIDRMask(8, 32)}, &net.IPNet{IP: net.IPv4(10, 77, 0, 1), Mask: net.CIDRMask(24, 32)}}
		n.watchman.host = func() ([]net.Addr, error) { return host, nil }
		const text, back = "an address of this node has gone", "an address of this node is back"
		looks := func() {
			for range 2 * addressEvery {
				look(time.Now())
			}
		}
		looks()
		lines(t, logs, zap.WarnLevel, text, 0)
		all := host
		host = host[:1]
		looks()
		contains(t, lines(t, logs, zap.WarnLevel, text, 1), gone.String())
		host = all
		looks()
		contains(t, lines(t, logs, zap.InfoLevel, back, 1), gone.String())
	})
}

func TestLogNamesBothPorts(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		log, logs := observed()
		l := newMemLab(t)
		for _, c := range []struct {
			wire config.Wire
			want []string
		}{
			{config.WireAuto, []string{fmt.Sprint("tcp_port:", l.Port), fmt.Sprint("xrc_port:", l.Port^1)}},
			{config.WireTCP, []string{fmt.Sprint("tcp_port:", l.Port)}},
			{config.WireXRC, []string{fmt.Sprint("xrc_port:", l.Port^1)}},
		} {
			l.bind(l.node(config.Node{Wire: c.wire, Logger: log}))
			line := lines(t, logs, zap.InfoLevel, "listening", 1)
			logs.TakeAll()
			contains(t, line, c.want...)
			if strings.Count(line, "_port") != len(c.want) {
				t.Errorf("%s: %s", c.wire, line)
			}
		}
	})
}
