//go:build live

package daemon

import (
	"errors"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// The daemon says what it is about to take before any of it can be sent, and what it has
// left when it does not take all.
func TestSubmissionsAreMarkedBeforeTheyAreTaken(t *testing.T) {
	t.Parallel()
	d, s, far := newAttached(t, newLoopLab(t), true)
	rdstest.MustSend(t, s, far.LocalAddrPort(), []byte("first"))
	rdstest.Expect(t, far, "first")
	var p *node.Peer
	d.node.EachPeer(func(q *node.Peer) {
		if q.Remote == far.LocalAddrPort().Addr() {
			p = q
		}
	})
	x := d.svc.all()[0]
	x.mu.Lock()
	head := x.sq.Head()
	x.mu.Unlock()
	release := rdstest.Hold(p) // nothing can be sent
	rdstest.MustSend(t, s, far.LocalAddrPort(), []byte("second"))
	marked := rdstest.Holds(rdstest.Patience, func() bool { return x.seg.Taking().Load() == head+1+1 })
	release()
	if !marked {
		t.Fatal("a submission is taken that was not marked before")
	}
	rdstest.Expect(t, far, "second")
	x.mu.Lock()
	x.left = true
	x.mu.Unlock()
	rdstest.MustSend(t, s, far.LocalAddrPort(), []byte("third"))
	rdstest.Eventually(t, "the submission to be left", func() bool { return x.overBudget.Load() })
	x.mu.Lock()
	defer x.mu.Unlock()
	if at := x.seg.Taking().Load(); at != head+1+1 {
		t.Errorf("%d is marked, and %d were taken", at, head+1)
	}
}

// The sender of a message on XRC hears that it was received when it is on the
// application's ring, and not before: the daemon may be killed in between.
func TestSuccessMeansOnTheRing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	_, svc, path := served(t, l, config.Node{Wire: config.WireXRC}, config.Service{})
	defer svc.Close()
	s := bound(t, dialed(t, path), rdstest.AddrOf(rdstest.NewAddr(), 100))
	far := l.bindOne(config.Node{Wire: config.WireXRC})
	send := func(token uint64) {
		t.Helper()
		rdstest.Must(t, far.SendMessage(rdstest.Background(t), &datagram.Outgoing{To: s.LocalAddrPort(), Data: []byte("x"), Notify: true, Token: token}))
	}
	send(1)
	rdstest.WantStatus(t, far, 1, datagram.StatusSuccess)
	rdstest.Expect(t, s, "x")
	x := svc.all()[0]
	release := rdstest.Hold(&x.out.mu) // nothing can be put on the ring
	send(2)
	if rdstest.Holds(100*time.Millisecond, func() bool { return halfOf(far).Fates.N.Load() > 0 }) {
		t.Error("PROMISE: success of a message that is not on the ring")
	}
	release()
	rdstest.WantStatus(t, far, 2, datagram.StatusSuccess)
	rdstest.Expect(t, s, "x")
}

// What a daemon that stops has left goes to the next one with its time limit, or ends: the
// region that a message offers, and an operation, have ended with the daemon. Each message
// has one fate.
func TestLeftSubmissionsThatSayMore(t *testing.T) {
	t.Parallel()
	d, s, far := newAttached(t, newLab(t), true)
	mem, err := s.AllocMemory(100)
	rdstest.Must(t, err)
	c, err := s.GetMR(mem.B, 0)
	rdstest.Must(t, err)
	rdstest.MustSend(t, s, far.LocalAddrPort(), []byte("up"))
	rdstest.Expect(t, far, "up")
	rdstest.Eventually(t, "the link to carry operations", func() bool {
		p := d.node.Known(s.LocalAddrPort().Addr(), far.LocalAddrPort().Addr())
		return d.svc.table.Carries(int(p.Index)) == ipc.CarriesOperations
	})
	d.leave()
	end := rdstest.After(500 * time.Millisecond)
	out := []datagram.Outgoing{
		{Expires: rdstest.After(time.Hour)},
		{Expires: end},
		{Data: rdstest.Payload(2, 300_000), Expires: rdstest.After(time.Hour)},
		{HasDest: true, Dest: c},
		{HasDest: true, Dest: c, Expires: rdstest.After(time.Hour)},
		{RDMA: &datagram.RDMA{Local: [][]byte{mem.B}, Write: true}},
		{RDMA: &datagram.RDMA{Local: [][]byte{mem.B}, Write: true}, Expires: rdstest.After(time.Hour)},
		{},
	}
	want := []datagram.Status{datagram.StatusSuccess, datagram.StatusExpired, datagram.StatusSuccess, datagram.StatusDropped, datagram.StatusDropped, datagram.StatusDropped, datagram.StatusDropped, datagram.StatusSuccess}
	for i := range out {
		o := &out[i]
		o.To, o.Notify, o.Token = far.LocalAddrPort(), true, uint64(i)
		if o.Data == nil {
			o.Data = rdstest.Payload(uint64(i), 10)
		}
		if err := s.SendMessage(rdstest.Background(t), o); err != nil {
			t.Fatal(i, err)
		}
	}
	d.stop()
	rdstest.Eventually(t, "the limit to be over", func() bool { return time.Now().After(end) })
	d.start()
	got, losses := make(map[uint64]datagram.Status), 0
	for len(got) < len(out) {
		m, err := s.Recv(rdstest.Background(t))
		if errors.Is(err, datagram.ErrDaemonLost) && losses == 0 {
			losses++
			continue
		}
		rdstest.Must(t, err)
		if was, twice := got[m.Token]; twice {
			t.Errorf("PROMISE: message %d has the fates %v and %v", m.Token, was, m.Status)
		}
		got[m.Token] = m.Status
	}
	for i, w := range want {
		if got[uint64(i)] != w {
			t.Errorf("PROMISE: message %d: %v, want %v", i, got[uint64(i)], w)
		}
	}
	for _, i := range []uint64{0, 2, 7} {
		rdstest.ExpectNumber(t, far, i)
	}
	if m, err := s.TryRecv(); err == nil {
		t.Errorf("PROMISE: one more: %v", &m)
	}
}

// A daemon that binds a socket again, puts a message for it on the ring and ends before
// the application has the answer leaves the message to the application, as its sender was
// told that the message was received.
func TestMessagesOfASocketWhoseBindWasNotAnswered(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	d := newRestarted(t, l)
	far := l.bindOne(config.Node{})
	c := d.client(true)
	s := bound(t, c, rdstest.AddrOf(rdstest.NewAddr(), 100))
	d.stop()
	_, err := s.Recv(rdstest.Background(t))
	rdstest.WantErr(t, "Recv", err, datagram.ErrDaemonLost)

	release := rdstest.Hold(&c.Mu) // the application attaches, and binds nothing yet
	d.start()
	rdstest.Eventually(t, "the application", func() bool { return len(d.svc.all()) == 1 })
	x := d.svc.all()[0]
	x.leaving.Store(true) // the daemon answers no call
	release()
	var a *appSocket
	rdstest.Eventually(t, "the socket", func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		if len(x.sockets) > 0 {
			a = x.sockets[0]
		}
		return a != nil
	})
	const messages = 10
	for i := range messages {
		rdstest.MustSend(t, far, s.LocalAddrPort(), rdstest.Payload(uint64(i), 100*i+8))
	}
	rdstest.Eventually(t, "all to be on the ring", func() bool { return a.gaveCount.Load() == messages })
	d.stop()
	rdstest.ExpectDespite(t, s, messages, true)
}
