//go:build live

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

// Sockets that were closed and linger for a host that is down, one by an application that waits for the end of
// its call, one by an application that has ended, one by one that has ended while it waited: they hold up no upgrade, and two upgrades later the host has
// all their messages, once and in order, and the call ends. A third one's linger time is over meanwhile: its call says
// what was dropped.
func TestUpgradeOfLingeringSockets(t *testing.T) {
	t.Parallel()
	rdstest.EachWire(t, func(t *testing.T, wire rds.Wire) {
		u := upgradesOf(t, string(wire))
		s := u.sides[0]
		u.takeOver(s, "--drain", "60s") // so long do sockets of an application that has ended linger
		host := s.addr.Addr().As4()
		host[3] = 77
		to := netip.AddrPortFrom(netip.AddrFrom4(host), 4000)
		const n = 200
		send := func(c *rds.Client, port, to netip.AddrPort, linger time.Duration) *rds.Socket {
			sock, err := c.Bind(port)
			must(t, err)
			sock.SetLinger(linger)
			for i := range n {
				data := make([]byte, 8+i%100/99*9000)
				binary.BigEndian.PutUint64(data, uint64(i))
				must(t, sock.Send(u.ctx, to, data))
			}
			return sock
		}
		at := func(port uint16) netip.AddrPort { return netip.AddrPortFrom(s.addr.Addr(), port) }
		waits, short := make(chan error, 1), make(chan error, 1)
		live := send(u.ends[0].client, at(4031), to, time.Hour)
		brief := send(u.ends[0].client, at(4033), netip.AddrPortFrom(to.Addr().Next(), 4000), 3*time.Second)
		app := func(port uint16, env ...string) *clitest.Process {
			p := clitest.StartEnv(t, append(env, fatesEnv+"="+fmt.Sprintln(s.path, at(port), to, n)), os.Args[0])
			p.Line(p.Stdout, "sent")
			return p
		}
		app(4032).Signal(syscall.SIGKILL)
		waiting := app(4034, closeEnv+"=1")
		go func() { waits <- live.Close() }()
		go func() { short <- brief.Close() }()
		free := func(port netip.AddrPort) func() bool {
			return func() bool {
				sock, err := u.ends[0].client.Bind(port)
				if err != nil {
					return false
				}
				sock.SetLinger(0)
				return sock.Close() == nil
			}
		}
		for port := range uint16(4) {
			rdstest.Eventually(t, "the socket to be closed", free(at(4031+port)))
		}
		waiting.Signal(syscall.SIGKILL) // the answer to its call is nobody's
		for range 2 {
			began := time.Now()
			u.takeOver(s, "--drain", "60s")
			if took := time.Since(began); took > 4*time.Second {
				t.Errorf("the upgrade took %v", took)
			}
		}
		if err := <-short; err == nil {
			t.Error("the end of a socket whose messages were dropped says nothing")
		} else if d := new(rds.DroppedError); !errors.As(err, &d) || d.Messages != n {
			t.Errorf("%d messages were dropped, not %d: %v", d.Messages, n, err)
		}
		sock := bind(t, nodeOf(t, rds.Config{Port: uint16(u.port), Wire: rds.Wire(u.wire)}), to.String())
		ctx, cancel := context.WithTimeout(u.ctx, 30*time.Second)
		defer cancel()
		receiveLingering(ctx, t, sock, at(4031), n)
		must(t, <-waits)
		if m, err := sock.TryRecv(); err == nil {
			t.Errorf("one more message, from %v", m.From)
		}
	})
}

// receiveLingering receives the messages of three sockets that linger, n of each; those of one of them are numbered.
func receiveLingering(ctx context.Context, t *testing.T, sock *rds.Socket, ordered netip.AddrPort, n int) {
	t.Helper()
	next := make(map[netip.AddrPort]int)
	for range 3 * n {
		m, err := sock.Recv(ctx)
		must(t, err)
		if m.From == ordered && binary.BigEndian.Uint64(m.Data) != uint64(next[m.From]) {
			t.Fatalf("message %d of %v, want %d", binary.BigEndian.Uint64(m.Data), m.From, next[m.From])
		}
		next[m.From]++
		m.Release()
	}
	for from, k := range next {
		if k != n {
			t.Errorf("%d messages of %v, not %d", k, from, n)
		}
	}
}
