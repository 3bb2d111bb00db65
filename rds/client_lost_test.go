package rds

import (
	"context"
	"net/netip"
	"testing"
)

// endingDaemon ends the daemon, which leaves a message that s sends to an address. Sockets
// hear of the end when tell is called.
func endingDaemon(t *testing.T, d *restarted, s *Socket, to netip.AddrPort) (tell func()) {
	t.Helper()
	att := clientHalfOf(s).half.Load().t
	d.leave()
	mustSend(t, s, to, []byte("left"))
	clientHalfOf(s).unsent.mu.Lock() // holds up salvage
	d.stop()
	eventually(t, "the end", func() bool {
		att.submission.mu.Lock()
		defer att.submission.mu.Unlock()
		return att.submission.dead
	})
	return clientHalfOf(s).unsent.mu.Unlock
}

// A send that finds the send arena gone, in the moment between the end of the daemon and
// the sockets' hearing of it, fails at once. Its socket reports the loss once: the next send
// waits for the next daemon.
func TestSendWhileADaemonEnds(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	d := newRestarted(t, l)
	far := l.bindOne(Config{})
	s := bound(t, d.client(true), addrOf(newAddr(), 100))
	mustSend(t, s, far.LocalAddrPort(), []byte("first"))
	expect(t, far, "first")
	tell := endingDaemon(t, d, s, far.LocalAddrPort())
	wantErr(t, "Send", s.Send(background(t), far.LocalAddrPort(), make([]byte, 20_000)), ErrDaemonLost)
	wantErr(t, "TrySend", s.TrySend(far.LocalAddrPort(), []byte("x")), ErrWouldBlock)
	sent := make(chan error, 1)
	go func() { sent <- s.Send(background(t), far.LocalAddrPort(), []byte("second")) }()
	eventually(t, "the next send to wait", func() bool { return clientHalfOf(s).writers.n.Load() == 1 })
	tell()
	d.start()
	if err := <-sent; err != nil {
		t.Error(err)
	}
	expect(t, far, "left")
	expect(t, far, "second")
}

// A send that waits for its session's budget when the daemon ends fails, too.
func TestSendWaitsForBudgetWhileADaemonEnds(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	d := newRestarted(t, l)
	s := bound(t, d.client(true), addrOf(newAddr(), 100))
	to := nowhere()
	mustSend(t, s, to, []byte("x"))
	tell := endingDaemon(t, d, s, to)
	clientHalfOf(s).half.Load().t.budget.account.SetLimit(1) // "left" uses it up
	ctx, cancel := context.WithCancel(background(t))
	defer cancel()
	sent := make(chan error, 1)
	go func() { sent <- s.Send(ctx, to, []byte("x")) }()
	space := &clientHalfOf(s).half.Load().t.space
	eventually(t, "the send to wait", func() bool { return space.n.Load() == 1 })
	tell()
	wantErr(t, "Send", <-sent, ErrDaemonLost)
}
