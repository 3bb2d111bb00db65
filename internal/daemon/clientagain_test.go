package daemon

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// leave has the daemon take nothing more, as one that stops does.
func (r *restarted) leave() {
	for _, x := range r.svc.all() {
		x.mu.Lock()
		x.leaveLocked()
		x.mu.Unlock()
	}
}

// newAttached is a socket of an application that attaches again to the next daemon, or does
// not, and one of another host.
func newAttached(t *testing.T, l *lab, again bool) (d *restarted, s, far *socket.Socket) {
	t.Helper()
	d = newRestarted(t, l)
	return d, bound(t, d.client(again), rdstest.AddrOf(rdstest.NewAddr(), 100)), l.bindOne(config.Node{})
}

// What a daemon that stops does not take is submitted to the next one, in order and in
// front of what is sent later; not by an application that does not attach again.
func TestLeftSubmissionsGoToTheNextDaemon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, s, far := newAttached(t, newLoopLab(t), true)
		stays := bound(t, d.client(false), rdstest.AddrOf(rdstest.NewAddr(), 100))
		rdstest.MustSend(t, s, far.LocalAddrPort(), rdstest.Payload(0, 10))
		m := rdstest.MustRecv(t, far)
		m.Release()

		sizes := []int{0, 10, conn.InlineMax, conn.InlineMax + 1, 300_000, 10}
		for range 3 { // daemons
			d.leave()
			for i, n := range sizes {
				out := &datagram.Outgoing{To: far.LocalAddrPort(), Data: rdstest.Payload(uint64(i), n), Notify: true, Token: uint64(i)}
				if err := s.SendMessage(rdstest.Background(t), out); err != nil {
					t.Fatal(err)
				}
			}
			if rdstest.Holds(20*time.Millisecond, func() bool { return halfOf(far).Queue.Count.Load() > 0 }) {
				t.Fatal("a daemon that has left takes submissions")
			}
			d.stop()
			_, err := s.Recv(rdstest.Background(t))
			rdstest.WantErr(t, "Recv", err, datagram.ErrDaemonLost)
			d.start()
			rdstest.MustSend(t, s, far.LocalAddrPort(), rdstest.Payload(uint64(len(sizes)), 10))
			rdstest.ExpectNumbers(t, far, len(sizes)+1)
			for i := range sizes {
				m := rdstest.MustRecv(t, s)
				if m.Kind != datagram.KindStatus || m.Status != datagram.StatusSuccess || m.Token != uint64(i) {
					t.Errorf("fate %d: %v", i, &m)
				}
			}
		}
		rdstest.WantErr(t, "Send", stays.Send(rdstest.Background(t), far.LocalAddrPort(), nil), datagram.ErrDaemonLost)
	})
}

// What a daemon that is killed has not touched is submitted to the next one, and what it
// may have sent is not: that ends with StatusDropped, as all does of an application that
// does not attach again.
func TestKilledDaemonsSubmissions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, again := range []bool{true, false} {
			d, s, far := newAttached(t, newLoopLab(t), again)
			send := func(token uint64, size int) {
				o := datagram.Outgoing{To: far.LocalAddrPort(), Data: rdstest.Payload(token, size), Notify: true, Token: token}
				if err := s.SendMessage(rdstest.Background(t), &o); err != nil {
					t.Fatal(err)
				}
			}
			x := d.svc.all()[0]
			x.mu.Lock()
			x.left = true // It takes nothing more.
			x.mu.Unlock()
			for i, size := range []int{10, 100_000, 10, 100_000, 10} {
				send(uint64(i%3), size) // tokens need not differ
			}
			x.mu.Lock()
			x.ended = true                            // the session ends as that of a killed daemon does
			x.seg.Taking().Store(x.sq.Head() + 1 + 2) // while it sends the first two
			x.mu.Unlock()
			d.stop()
			told := map[uint64]int{}
			tell := func(n int, want datagram.Status) {
				t.Helper()
				for range n {
					m := rdstest.MustRecv(t, s)
					if m.Kind != datagram.KindStatus || m.Status != want {
						t.Errorf("%v, want the fate %v", &m, want)
					}
					told[m.Token]++
				}
			}
			if !again {
				tell(5, datagram.StatusDropped)
				continue
			}
			tell(2, datagram.StatusDropped)
			if told[0] != 1 || told[1] != 1 {
				t.Errorf("dropped: %v", told)
			}
			_, err := s.Recv(rdstest.Background(t))
			rdstest.WantErr(t, "Recv", err, datagram.ErrDaemonLost)
			d.start()
			rdstest.MustSend(t, s, far.LocalAddrPort(), []byte("later"))
			for _, token := range []uint64{2, 0, 1} {
				rdstest.ExpectNumber(t, far, token)
			}
			rdstest.Expect(t, far, "later")
			tell(3, datagram.StatusSuccess)
		}
	})
}

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
		if err := far.SendMessage(rdstest.Background(t), &datagram.Outgoing{To: s.LocalAddrPort(), Data: []byte("x"), Notify: true, Token: token}); err != nil {
			t.Fatal(err)
		}
	}
	send(1)
	rdstest.WantStatus(t, far, 1, datagram.StatusSuccess)
	rdstest.Expect(t, s, "x")
	x := svc.all()[0]
	release := rdstest.Hold(&x.out.mu) // nothing can be put on the ring
	send(2)
	if rdstest.Holds(100*time.Millisecond, func() bool { return halfOf(far).Fates.N.Load() > 0 }) {
		t.Error("success of a message that is not on the ring")
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
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.GetMR(mem.B, 0)
	if err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
		if was, twice := got[m.Token]; twice {
			t.Errorf("message %d has the fates %v and %v", m.Token, was, m.Status)
		}
		got[m.Token] = m.Status
	}
	for i, w := range want {
		if got[uint64(i)] != w {
			t.Errorf("message %d: %v, want %v", i, got[uint64(i)], w)
		}
	}
	for _, i := range []uint64{0, 2, 7} {
		rdstest.ExpectNumber(t, far, i)
	}
	if m, err := s.TryRecv(); err == nil {
		t.Errorf("one more: %v", &m)
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
