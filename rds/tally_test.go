//go:build live

package rds

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
)

// sessionOf is the only session of a service.
func sessionOf(t *testing.T, svc *Service) SessionInfo {
	t.Helper()
	all := svc.Sessions()
	if len(all) != 1 {
		t.Fatalf("sessions %+v", all)
	}
	return all[0]
}

// An application blocks, and is refused, by itself: the daemon counts it nevertheless, and
// what was received is what the application took.
func TestCountersThroughDaemon(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	n, svc, path := served(t, l, Config{}, ServiceConfig{})
	far := l.bind(l.node(Config{}))
	s := bound(t, dialed(t, path), rdstest.AddrOf(rdstest.NewAddr(), 100))
	counts := func(name string, got uint64, want uint64) {
		t.Helper()
		if c := counter(t, n, name); got != want || c != want {
			t.Errorf("%s: %d of the session, %d of the node, want %d", name, got, c, want)
		}
	}

	for range 3 {
		rdstest.MustSend(t, far, s.LocalAddrPort(), make([]byte, 10))
	}
	rdstest.Eventually(t, "arrival", func() bool { return counter(t, n, "recv_queued") == 3 })
	x := sessionOf(t, svc)
	counts("recv_delivered", x.RecvMessages, 0)
	rdstest.Drop(t, s, 3)
	x = sessionOf(t, svc)
	counts("recv_delivered", x.RecvMessages, 3)
	if x.RecvBytes != 30 {
		t.Errorf("%d bytes received, want 30", x.RecvBytes)
	}

	rdstest.Must(t, far.SetReadBuffer(1000))
	var err error
	rdstest.Eventually(t, "congestion", func() bool {
		err = s.TrySend(far.LocalAddrPort(), make([]byte, 500))
		return errors.Is(err, ErrCongested)
	})
	counts("cong_send_error", sessionOf(t, svc).CongestionErrors, 1)
	ctx, cancel := context.WithCancel(rdstest.Background(t))
	sent := make(chan error, 1)
	go func() { sent <- s.Send(ctx, far.LocalAddrPort(), []byte("x")) }()
	rdstest.Eventually(t, "a blocked sender", func() bool { return sessionOf(t, svc).CongestionBlocked == 1 })
	counts("cong_send_blocked", sessionOf(t, svc).CongestionBlocked, 1)
	var w WaitInfo
	rdstest.Eventually(t, "the wait in the daemon's report", func() bool { w = rdstest.WaitOf(t, n, CauseCongested); return w.Senders == 1 })
	if w.Local != s.LocalAddrPort() || w.Remote != far.LocalAddrPort() || w.PID != os.Getpid() {
		t.Errorf("%+v", w)
	}
	cancel()
	if err := <-sent; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	rdstest.Eventually(t, "the end of the wait", func() bool { return rdstest.WaitOf(t, n, CauseCongested).Senders == 0 })

	const buffer = 100_000 // more than what the congested port holds back
	rdstest.Must(t, s.SetWriteBuffer(buffer))
	to := rdstest.Nowhere()
	rdstest.MustSend(t, s, to, make([]byte, buffer))
	before := sessionOf(t, svc).QueueFull
	if err := s.TrySend(to, []byte("x")); !errors.Is(err, ErrWouldBlock) {
		t.Errorf("%v", err)
	}
	counts("send_queue_full", sessionOf(t, svc).QueueFull, before+1)

	for range 5 {
		rdstest.MustSend(t, far, s.LocalAddrPort(), nil)
	}
	rdstest.Eventually(t, "arrival", func() bool { return counter(t, n, "recv_queued") == 8 })
	s.SetLinger(0)
	_ = s.Close() // the socket closes with five messages not taken
	if got := counter(t, n, "recv_drop_dead_sock"); got != 5 {
		t.Errorf("recv_drop_dead_sock %d, want 5", got)
	}
	counts("recv_delivered", sessionOf(t, svc).RecvMessages, 3)
}
