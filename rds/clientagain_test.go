package rds

import (
	"errors"
	"testing"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/ipc"
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
func newAttached(t *testing.T, l *lab, again bool) (d *restarted, s, far *Socket) {
	t.Helper()
	d = newRestarted(t, l)
	return d, bound(t, d.client(again), addrOf(newAddr(), 100)), l.bindOne(Config{})
}

// expectDespite is expectNumbers of a socket that may be told of the loss of its daemon
// meanwhile if lost is set.
func expectDespite(t *testing.T, s *Socket, n uint64, lost bool) {
	t.Helper()
	for i := uint64(0); i < n; {
		m, err := s.Recv(background(t))
		if errors.Is(err, ErrDaemonLost) && lost {
			continue
		}
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		if err := verify(m.Data, i); err != nil {
			t.Fatal(err)
		}
		m.Release()
		i++
	}
}

// What a daemon that stops does not take is submitted to the next one, in order and in
// front of what is sent later; not by an application that does not attach again.
func TestLeftSubmissionsGoToTheNextDaemon(t *testing.T) {
	t.Parallel()
	d, s, far := newAttached(t, newLoopLab(t), true)
	stays := bound(t, d.client(false), addrOf(newAddr(), 100))
	mustSend(t, s, far.LocalAddrPort(), payload(0, 10))
	m := mustRecv(t, far)
	m.Release()

	sizes := []int{0, 10, conn.InlineMax, conn.InlineMax + 1, 300_000, 10}
	for range 3 { // daemons
		d.leave()
		for i, n := range sizes {
			out := &Outgoing{To: far.LocalAddrPort(), Data: payload(uint64(i), n), Notify: true, Token: uint64(i)}
			if err := s.SendMessage(background(t), out); err != nil {
				t.Fatal(err)
			}
		}
		if holds(20*time.Millisecond, func() bool { return halfOf(far).q.count.Load() > 0 }) {
			t.Fatal("a daemon that has left takes submissions")
		}
		d.stop()
		_, err := s.Recv(background(t))
		wantErr(t, "Recv", err, ErrDaemonLost)
		d.start()
		mustSend(t, s, far.LocalAddrPort(), payload(uint64(len(sizes)), 10))
		expectNumbers(t, far, len(sizes)+1)
		for i := range sizes {
			m := mustRecv(t, s)
			if m.Kind != KindStatus || m.Status != StatusSuccess || m.Token != uint64(i) {
				t.Errorf("fate %d: %v", i, &m)
			}
		}
	}
	wantErr(t, "Send", stays.Send(background(t), far.LocalAddrPort(), nil), ErrDaemonLost)
}

// What a daemon that is killed has not touched is submitted to the next one, and what it
// may have sent is not: that ends with StatusDropped, as all does of an application that
// does not attach again.
func TestKilledDaemonsSubmissions(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{true, false} {
		d, s, far := newAttached(t, newLoopLab(t), again)
		send := func(token uint64, size int) {
			o := Outgoing{To: far.LocalAddrPort(), Data: payload(token, size), Notify: true, Token: token}
			if err := s.SendMessage(background(t), &o); err != nil {
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
		tell := func(n int, want Status) {
			t.Helper()
			for range n {
				m := mustRecv(t, s)
				if m.Kind != KindStatus || m.Status != want {
					t.Errorf("%v, want the fate %v", &m, want)
				}
				told[m.Token]++
			}
		}
		if !again {
			tell(5, StatusDropped)
			continue
		}
		tell(2, StatusDropped)
		if told[0] != 1 || told[1] != 1 {
			t.Errorf("dropped: %v", told)
		}
		_, err := s.Recv(background(t))
		wantErr(t, "Recv", err, ErrDaemonLost)
		d.start()
		mustSend(t, s, far.LocalAddrPort(), []byte("later"))
		for _, token := range []uint64{2, 0, 1} {
			expectNumber(t, far, token)
		}
		expect(t, far, "later")
		tell(3, StatusSuccess)
	}
}

// The daemon says what it is about to take before any of it can be sent, and what it has
// left when it does not take all.
func TestSubmissionsAreMarkedBeforeTheyAreTaken(t *testing.T) {
	t.Parallel()
	d, s, far := newAttached(t, newLoopLab(t), true)
	mustSend(t, s, far.LocalAddrPort(), []byte("first"))
	expect(t, far, "first")
	var p *peer
	d.node.eachPeer(func(q *peer) {
		if q.remote == far.LocalAddrPort().Addr() {
			p = q
		}
	})
	x := d.svc.all()[0]
	x.mu.Lock()
	head := x.sq.Head()
	x.mu.Unlock()
	p.Lock() // nothing can be sent
	mustSend(t, s, far.LocalAddrPort(), []byte("second"))
	marked := holds(patience, func() bool { return x.seg.Taking().Load() == head+1+1 })
	p.Unlock()
	if !marked {
		t.Fatal("a submission is taken that was not marked before")
	}
	expect(t, far, "second")
	x.mu.Lock()
	x.left = true
	x.mu.Unlock()
	mustSend(t, s, far.LocalAddrPort(), []byte("third"))
	eventually(t, "the submission to be left", func() bool { return x.overBudget.Load() })
	x.mu.Lock()
	defer x.mu.Unlock()
	if at := x.seg.Taking().Load(); at != head+1+1 {
		t.Errorf("%d is marked, and %d were taken", at, head+1)
	}
}

// What the daemon has put on the ring is received although the daemon has ended before
// anybody looked.
func TestRingOutlivesTheDaemon(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{true, false} {
		d, s, far := newAttached(t, newLoopLab(t), again)
		const messages = 100
		clientHalfOf(s).q.mu.Lock() // nobody can receive
		for i := range messages {
			mustSend(t, far, s.LocalAddrPort(), payload(uint64(i), 8+i*100))
		}
		x := d.svc.all()[0]
		x.mu.Lock()
		a := x.sockets[0]
		x.mu.Unlock()
		eventually(t, "all to be on the ring", func() bool { return a.gaveCount.Load() == messages })
		att := clientHalfOf(s).half.Load().t
		d.stop()
		<-att.dead
		clientHalfOf(s).q.mu.Unlock()
		expectDespite(t, s, messages, again)
	}
}

// Attempts to attach follow each other closely as long as a daemon may be starting.
func TestBackOffIsShortAtFirst(t *testing.T) {
	t.Parallel()
	c := &Client{cfg: ClientConfig{ReconnectMin: 10 * time.Millisecond, ReconnectMax: time.Second}}
	most := time.Duration(0)
	for wait, since := c.cfg.ReconnectMin, time.Duration(0); since < soon; wait = c.backOff(wait, since) {
		most = max(most, wait)
		since += wait
	}
	if most > 50*time.Millisecond {
		t.Errorf("waits of %v in the first %v", most, soon)
	}
	if w := c.backOff(50*time.Millisecond, soon); w != 100*time.Millisecond {
		t.Errorf("then %v", w)
	}
	if w := c.backOff(time.Second, time.Hour); w != time.Second {
		t.Errorf("at last %v", w)
	}
	c.cfg.ReconnectMin = 200 * time.Millisecond
	if w := c.backOff(200*time.Millisecond, 0); w != 200*time.Millisecond {
		t.Errorf("%v, shorter than was asked for", w)
	}
}

// The sender of a message on XRC hears that it was received when it is on the
// application's ring, and not before: the daemon may be killed in between.
func TestSuccessMeansOnTheRing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	_, svc, path := served(t, l, Config{Wire: WireXRC}, ServiceConfig{})
	defer svc.Close()
	s := bound(t, dialed(t, path), addrOf(newAddr(), 100))
	far := l.bindOne(Config{Wire: WireXRC})
	send := func(token uint64) {
		t.Helper()
		if err := far.SendMessage(background(t), &Outgoing{To: s.LocalAddrPort(), Data: []byte("x"), Notify: true, Token: token}); err != nil {
			t.Fatal(err)
		}
	}
	send(1)
	wantStatus(t, far, 1, StatusSuccess)
	expect(t, s, "x")
	x := svc.all()[0]
	x.out.mu.Lock() // nothing can be put on the ring
	send(2)
	if holds(100*time.Millisecond, func() bool { return halfOf(far).fates.n.Load() > 0 }) {
		t.Error("success of a message that is not on the ring")
	}
	x.out.mu.Unlock()
	wantStatus(t, far, 2, StatusSuccess)
	expect(t, s, "x")
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
	mustSend(t, s, far.LocalAddrPort(), []byte("up"))
	expect(t, far, "up")
	eventually(t, "the link to carry operations", func() bool {
		h := clientHalfOf(s).half.Load()
		return h != nil && h.t.table.Carries(int(clientHalfOf(s).last.Load().peer)) == ipc.CarriesOperations
	})
	d.leave()
	end := after(500 * time.Millisecond)
	out := []Outgoing{
		{Expires: after(time.Hour)},
		{Expires: end},
		{Data: payload(2, 300_000), Expires: after(time.Hour)},
		{HasDest: true, Dest: c},
		{HasDest: true, Dest: c, Expires: after(time.Hour)},
		{RDMA: &RDMA{Local: [][]byte{mem.B}, Write: true}},
		{RDMA: &RDMA{Local: [][]byte{mem.B}, Write: true}, Expires: after(time.Hour)},
		{},
	}
	want := []Status{StatusSuccess, StatusExpired, StatusSuccess, StatusDropped, StatusDropped, StatusDropped, StatusDropped, StatusSuccess}
	for i := range out {
		o := &out[i]
		o.To, o.Notify, o.Token = far.LocalAddrPort(), true, uint64(i)
		if o.Data == nil {
			o.Data = payload(uint64(i), 10)
		}
		if err := s.SendMessage(background(t), o); err != nil {
			t.Fatal(i, err)
		}
	}
	d.stop()
	eventually(t, "the limit to be over", func() bool { return time.Now().After(end) })
	d.start()
	got, losses := make(map[uint64]Status), 0
	for len(got) < len(out) {
		m, err := s.Recv(background(t))
		if errors.Is(err, ErrDaemonLost) && losses == 0 {
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
		expectNumber(t, far, i)
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
	far := l.bindOne(Config{})
	c := d.client(true)
	s := bound(t, c, addrOf(newAddr(), 100))
	d.stop()
	_, err := s.Recv(background(t))
	wantErr(t, "Recv", err, ErrDaemonLost)

	c.mu.Lock() // the application attaches, and binds nothing yet
	d.start()
	eventually(t, "the application", func() bool { return len(d.svc.all()) == 1 })
	x := d.svc.all()[0]
	x.leaving.Store(true) // the daemon answers no call
	c.mu.Unlock()
	var a *appSocket
	eventually(t, "the socket", func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		if len(x.sockets) > 0 {
			a = x.sockets[0]
		}
		return a != nil
	})
	const messages = 10
	for i := range messages {
		mustSend(t, far, s.LocalAddrPort(), payload(uint64(i), 100*i+8))
	}
	eventually(t, "all to be on the ring", func() bool { return a.gaveCount.Load() == messages })
	d.stop()
	expectDespite(t, s, messages, true)
}
