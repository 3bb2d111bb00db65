//go:build live

package client

import (
	"context"
	"net/netip"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// endingDaemon ends the daemon, which leaves a message that s sends to an address. Sockets
// hear of the end when tell is called.
func endingDaemon(t *testing.T, d *restarted, s *socket.Socket, to netip.AddrPort) (tell func()) {
	t.Helper()
	att := clientHalfOf(s).half.Load().att
	d.drain()
	rdstest.MustSend(t, s, to, []byte("left"))
	release := rdstest.Hold(&clientHalfOf(s).unsent.mu) // holds up salvage
	d.stop()
	rdstest.Eventually(t, "the end", func() bool {
		att.submission.mu.Lock()
		defer att.submission.mu.Unlock()
		return att.submission.dead
	})
	return release
}

// A send that finds the send arena gone, in the moment between the end of the daemon and
// the sockets' hearing of it, fails at once. Its socket reports the loss once: the next send
// waits for the next daemon.
func TestSendWhileADaemonEnds(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	d := newDrained(t, l)
	far := l.bindOne(config.Node{})
	s := bound(t, d.client(true), rdstest.AddrOf(rdstest.NewAddr(), 100))
	rdstest.MustSend(t, s, far.LocalAddrPort(), []byte("first"))
	rdstest.Expect(t, far, "first")
	tell := endingDaemon(t, d, s, far.LocalAddrPort())
	rdstest.WantErr(t, "Send", s.Send(rdstest.Background(t), far.LocalAddrPort(), make([]byte, 20_000)), datagram.ErrDaemonLost)
	rdstest.WantErr(t, "TrySend", s.TrySend(far.LocalAddrPort(), []byte("x")), datagram.ErrWouldBlock)
	sent := make(chan error, 1)
	go func() { sent <- s.Send(rdstest.Background(t), far.LocalAddrPort(), []byte("second")) }()
	rdstest.Eventually(t, "the next send to wait", func() bool { return clientHalfOf(s).writers.N.Load() == 1 })
	tell()
	d.restart()
	rdstest.NoError(t, <-sent)
	rdstest.Expect(t, far, "left")
	rdstest.Expect(t, far, "second")
}

// A send that waits for its session's budget when the daemon ends fails, too.
func TestSendWaitsForBudgetWhileADaemonEnds(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	d := newDrained(t, l)
	s := bound(t, d.client(true), rdstest.AddrOf(rdstest.NewAddr(), 100))
	to := rdstest.Nowhere()
	rdstest.MustSend(t, s, to, []byte("x"))
	tell := endingDaemon(t, d, s, to)
	clientHalfOf(s).half.Load().att.budget.account.SetLimit(1) // "left" uses it up
	ctx, cancel := context.WithCancel(rdstest.Background(t))
	defer cancel()
	sent := make(chan error, 1)
	go func() { sent <- s.Send(ctx, to, []byte("x")) }()
	space := &clientHalfOf(s).half.Load().att.space
	rdstest.Eventually(t, "the send to wait", func() bool { return space.N.Load() == 1 })
	tell()
	rdstest.WantErr(t, "Send", <-sent, datagram.ErrDaemonLost)
}
