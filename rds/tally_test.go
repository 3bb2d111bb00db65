package rds

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/ipc"
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
	s := bound(t, dialed(t, path), addrOf(newAddr(), 100))
	counts := func(name string, got uint64, want uint64) {
		t.Helper()
		if c := counter(t, n, name); got != want || c != want {
			t.Errorf("%s: %d of the session, %d of the node, want %d", name, got, c, want)
		}
	}

	for range 3 {
		mustSend(t, far, s.LocalAddrPort(), make([]byte, 10))
	}
	eventually(t, "arrival", func() bool { return counter(t, n, "recv_queued") == 3 })
	x := sessionOf(t, svc)
	counts("recv_delivered", x.RecvMessages, 0)
	for range 3 {
		m := mustRecv(t, s)
		m.Release()
	}
	x = sessionOf(t, svc)
	counts("recv_delivered", x.RecvMessages, 3)
	if x.RecvBytes != 30 {
		t.Errorf("%d bytes received, want 30", x.RecvBytes)
	}

	if err := far.SetReadBuffer(1000); err != nil {
		t.Fatal(err)
	}
	var err error
	eventually(t, "congestion", func() bool {
		err = s.TrySend(far.LocalAddrPort(), make([]byte, 500))
		return errors.Is(err, ErrCongested)
	})
	counts("cong_send_error", sessionOf(t, svc).CongestionErrors, 1)
	ctx, cancel := context.WithCancel(background(t))
	sent := make(chan error, 1)
	go func() { sent <- s.Send(ctx, far.LocalAddrPort(), []byte("x")) }()
	eventually(t, "a blocked sender", func() bool { return sessionOf(t, svc).CongestionBlocked == 1 })
	counts("cong_send_blocked", sessionOf(t, svc).CongestionBlocked, 1)
	var w WaitInfo
	eventually(t, "the wait in the daemon's report", func() bool { w = waitOf(t, n, CauseCongested); return w.Senders == 1 })
	if w.Local != s.LocalAddrPort() || w.Remote != far.LocalAddrPort() || w.PID != os.Getpid() {
		t.Errorf("%+v", w)
	}
	cancel()
	if err := <-sent; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	eventually(t, "the end of the wait", func() bool { return waitOf(t, n, CauseCongested).Senders == 0 })

	if err := s.SetWriteBuffer(100); err != nil {
		t.Fatal(err)
	}
	to := nowhere()
	mustSend(t, s, to, make([]byte, 100))
	before := sessionOf(t, svc).QueueFull
	if err := s.TrySend(to, []byte("x")); !errors.Is(err, ErrWouldBlock) {
		t.Errorf("%v", err)
	}
	counts("send_queue_full", sessionOf(t, svc).QueueFull, before+1)

	for range 5 {
		mustSend(t, far, s.LocalAddrPort(), nil)
	}
	eventually(t, "arrival", func() bool { return counter(t, n, "recv_queued") == 8 })
	s.SetLinger(0)
	_ = s.Close() // it has not taken five
	if got := counter(t, n, "recv_drop_dead_sock"); got != 5 {
		t.Errorf("recv_drop_dead_sock %d, want 5", got)
	}
	counts("recv_delivered", sessionOf(t, svc).RecvMessages, 3)
}

// waitOf is the first wait for this cause, zero if there is none.
func waitOf(t *testing.T, n *Node, cause string) WaitInfo {
	t.Helper()
	info, err := n.Info()
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range info.Waits {
		if w.Cause == cause {
			return w
		}
	}
	return WaitInfo{}
}

// What an application writes into its cell counts for its own session, never backwards, and
// makes no report that cannot be true.
func TestCountersOfALiar(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	n, svc, path := served(t, l, Config{}, ServiceConfig{})
	honest := bound(t, dialed(t, path), addrOf(newAddr(), 100))
	e := intrude(t, path)
	defer e.leave()
	r := e.ask(ipc.Request{Op: ipc.CallBind, Addr: addrOf(newAddr(), 200)})
	if r.Error != "" {
		t.Fatal(r.Error)
	}
	cell := e.seg.Cell(int(r.Socket & 0xffff))
	liar := func() SessionInfo {
		all := svc.Sessions()
		return all[len(all)-1]
	}
	cell.Blocked.Store(7)
	if got := liar().CongestionBlocked; got != 7 {
		t.Fatalf("%d sends have blocked, want 7", got)
	}
	cell.Blocked.Store(3)
	cell.Full.Store(1<<64 - 1)
	cell.TakenMessages.Store(1<<64 - 1)
	cell.TakenBytes.Store(1<<64 - 1)
	for range 2 {
		if x := liar(); x.CongestionBlocked != 7 || x.QueueFull > maxTally || x.RecvMessages != 0 || x.RecvBytes != 0 {
			t.Errorf("%+v", x)
		}
	}
	cell.Blocked.Store(8)
	if got := liar().CongestionBlocked; got != 8 {
		t.Errorf("%d sends have blocked, want 8", got)
	}
	for _, x := range svc.Sessions() {
		if x.PID == os.Getpid() && x.ID != liar().ID && (x.CongestionBlocked != 0 || x.QueueFull != 0) {
			t.Errorf("another session: %+v", x)
		}
	}
	mustSend(t, honest, nowhere(), []byte("x"))
	cell.Waits[0].Set(ipc.WaitPort, 9, 0, 77, time.Now().Add(time.Hour).UnixNano()) // the peer of another address
	cell.Waits[1].Set(ipc.WaitPort, 9, 1<<31, 77, 0)
	cell.Waits[2].Set(200, 1, 0, 0, 0)
	if w := waitOf(t, n, CauseCongested); w.Senders != 0 {
		t.Errorf("reported although there is no such peer: %+v", w)
	}
	cell.Waits[2].Set(ipc.WaitRoom, 0, 1, 1, 1)
	eventually(t, "a wait that can be", func() bool { return waitOf(t, n, CauseSendBuffer).Senders == 1 })
	if w := waitOf(t, n, CauseSendBuffer); w.Since.Before(liar().Since) {
		t.Errorf("it waits for longer than it is there: %+v", w)
	}
}
