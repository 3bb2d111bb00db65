package rds

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/ipc"
)

// opService is a daemon in a network with RDMA, and a client of it.
func opService(t testing.TB, l *lab, n *opNet, scfg ServiceConfig) (*Service, *Client) {
	t.Helper()
	svc, path := serving(t, n.node(l, Config{}), scfg)
	return svc, dialed(t, path)
}

// lastSession is the one that attached last.
func lastSession(svc *Service) *session {
	var last *session
	for _, x := range svc.all() {
		if last == nil || x.id > last.id {
			last = x
		}
	}
	return last
}

// Only memory of AllocMemory, of the same daemon and the same process, can be
// used, and that is bounded.
func TestClientMemory(t *testing.T) {
	t.Parallel()
	l, n := newOpLab(t)
	svc, c := opService(t, l, n, ServiceConfig{MemoryArena: 1 << 20})
	a := bound(t, c, addrOf(newAddr(), 100))
	other := lent(t, bound(t, dialed(t, svc.config().Path), addrOf(newAddr(), 100)), 100)
	b := l.bind(n.node(l, Config{}))
	mine := lent(t, a, 100)
	ctx := background(t)
	for name, mem := range map[string][]byte{"the heap's": make([]byte, 100), "another session's": other, "the send arena's": a.AllocMessage(100).Data} {
		_, err := a.GetMR(mem, 0)
		wantErr(t, name, err, syscall.EFAULT)
		for _, o := range []Outgoing{
			{RDMA: &RDMA{Local: [][]byte{mine, mem}}}, {Map: &Map{Memory: mem}},
		} {
			o.To = b.LocalAddrPort()
			wantErr(t, name, a.SendMessage(ctx, &o), syscall.EFAULT)
		}
	}
	_, err := a.AllocMemory(MaxMessage + 1)
	wantErr(t, "too much", err, ErrMessageTooLong)
	_, err = a.AllocMemory(MaxMessage)
	wantErr(t, "no room", err, ErrWouldBlock)
	var all []*Memory
	for {
		m, err := a.AllocMemory(300 << 10)
		if err != nil {
			wantErr(t, "used up", err, ErrWouldBlock)
			break
		}
		all = append(all, m)
		if bytes.IndexByte(m.B, 1) >= 0 || len(m.B) != 300<<10 || cap(m.B) != len(m.B) {
			t.Errorf("%d of %d bytes, or not zero", len(m.B), cap(m.B))
		}
		m.B[0], m.B[len(m.B)-1] = 1, 1
		if len(all) == 1 {
			m.Release()
			m.Release()
			all = nil
			if m, err = a.AllocMemory(300 << 10); err != nil || m.B[0] != 0 || m.B[len(m.B)-1] != 0 {
				t.Fatalf("%v, or not zero", err)
			}
			all = append(all, m)
		}
	}
	if len(all) != 1 { // of 512 KiB each, one of which has a page of other memory in it
		t.Errorf("%d pieces", len(all))
	}
}

// A daemon whose transport has no RDMA, and a peer that has none.
func TestClientWithoutOperations(t *testing.T) {
	t.Parallel()
	plain := newLoopLab(t)
	_, path := serving(t, plain.node(Config{}), ServiceConfig{})
	s := bound(t, dialed(t, path), addrOf(newAddr(), 100))
	one := []byte{1}
	_, err := s.AllocMemory(1)
	wantErr(t, "AllocMemory", err, ErrNotSupported)
	_, err = s.GetMR(one, 0)
	wantErr(t, "GetMR", err, ErrNotSupported)
	wantErr(t, "FreeMR", s.FreeMR(1, 0), ErrInvalid)
	for _, o := range []Outgoing{{RDMA: &RDMA{Local: [][]byte{one}}}, {Atomic: &Atomic{}}, {HasDest: true, Dest: 1}, {Map: &Map{Memory: one}}} {
		o.To = s.LocalAddrPort()
		wantErr(t, "send", s.SendMessage(background(t), &o), ErrNotSupported)
	}

	l, n := newOpLab(t)
	_, c := opService(t, l, n, ServiceConfig{})
	a := bound(t, c, addrOf(newAddr(), 100))
	b := l.bind(n.node(l, Config{}))
	o := Outgoing{To: b.LocalAddrPort(), RDMA: &RDMA{Local: [][]byte{lent(t, a, 1)}}}
	wantErr(t, "not known yet", a.TrySendMessage(&o), ErrWouldBlock)
	n.set(func() { n.plain = true })
	away := Outgoing{To: addrOf(newAddr(), 100), RDMA: o.RDMA}
	ctx, cancel := context.WithTimeout(context.Background(), 3*reachWait)
	defer cancel()
	wantErr(t, "nobody", a.SendMessage(ctx, &away), context.DeadlineExceeded)
	if err := a.SetWriteDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "nobody, after the deadline", a.SendMessage(background(t), &away), os.ErrDeadlineExceeded)
	_ = a.SetWriteDeadline(time.Time{})
	peer := l.bind(n.node(l, Config{}))
	away.To = peer.LocalAddrPort()
	wantErr(t, "a peer without", a.SendMessage(background(t), &away), ErrNotSupported)
}

// What waits when the peer comes back without RDMA fails, and so does what was
// just about to be submitted.
func TestClientPeerComesBackWithoutOperations(t *testing.T) {
	t.Parallel()
	l, n := newOpLab(t)
	svc, c := opService(t, l, n, ServiceConfig{})
	a := bound(t, c, addrOf(newAddr(), 100))
	b := l.bind(n.node(l, Config{}))
	cookie, own, local := mustGetMR(t, b, make([]byte, 8), 0), mustGetMR(t, a, lent(t, a, 8), 0), lent(t, a, 8)
	o := Outgoing{RDMA: &RDMA{Cookie: cookie, Local: [][]byte{local}, Write: true}}
	operate(t, a, b, 1, o)
	expect(t, b, "")
	wantStatus(t, a, 1, StatusSuccess)

	h := clientHalfOf(a).half.Load()
	_, d, err := clientHalfOf(a).check(background(t), h.t, &Outgoing{To: b.LocalAddrPort()})
	if err != nil {
		t.Fatal(err)
	}
	var late []*special
	outs := []Outgoing{
		{To: b.LocalAddrPort(), Notify: true, Token: 5, RDMA: o.RDMA},
		{To: b.LocalAddrPort(), Notify: true, Token: 6, HasDest: true, Dest: own, Data: payload(6, 40_000)},
	}
	for i := range outs {
		x, err := clientHalfOf(a).special(background(t), h, d, b.LocalAddrPort(), &outs[i], true)
		if err != nil {
			t.Fatal(err)
		}
		late = append(late, x)
	}
	n.set(func() { n.full, n.plain = true, true })
	operate(t, a, b, 2, o)
	cutLinks(svc.node)
	wantStatus(t, a, 2, StatusOtherError)
	o.To = b.LocalAddrPort()
	wantErr(t, "then", a.SendMessage(background(t), &o), ErrNotSupported)
	for i, x := range late {
		if err := clientHalfOf(a).sendChecked(background(t), h, d, b.LocalAddrPort().Port(), &outs[i], x, true); err != nil {
			t.Fatal(err)
		}
		x.accepted(clientHalfOf(a), h, &outs[i])
		wantStatus(t, a, uint64(5+i), StatusOtherError)
	}
	mustSend(t, a, b.LocalAddrPort(), []byte("plain"))
	expect(t, b, "plain")
	x := lastSession(svc)
	eventually(t, "all memory back", func() bool {
		h.collect()
		return x.queued.Load() == 0 && x.seg.holds.Load() == 2 && h.account.Bytes() == 0 // the session's, and the region's
	})
}

// The end of a daemon drops operations and ends regions. Its memory is of no use
// to the next one.
func TestOperationsEndWithTheDaemon(t *testing.T) {
	t.Parallel()
	l, n := newOpLab(t)
	svc, path := serving(t, n.node(l, Config{}), ServiceConfig{})
	d := &restarted{t, svc.node, svc, path}
	t.Cleanup(func() { _ = d.svc.Close() })
	a := bound(t, d.client(true), addrOf(newAddr(), 100))
	b := l.bind(n.node(l, Config{}))
	theirs, old := make([]byte, 8), lent(t, a, 8)
	remote, own := mustGetMR(t, b, theirs, 0), mustGetMR(t, a, old, 0)
	o := Outgoing{RDMA: &RDMA{Cookie: remote, Local: [][]byte{old}, Write: true, Silent: true}}
	operate(t, a, b, 1, o)
	wantStatus(t, a, 1, StatusSuccess)
	n.set(func() { n.hold = true })
	var result uint64
	operate(t, a, b, 2, Outgoing{Atomic: &Atomic{Cookie: remote, Add: 1, Result: &result, Silent: true}})
	operate(t, a, b, 3, o)
	n.waitHeld(t, 2)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		d.stop()
	}()
	eventually(t, "the end of the session", func() bool { return len(svc.all()) == 0 })
	n.release()
	var told, losses uint64
	for range 3 { // in any order: what is told of two things may be read in between
		m, err := a.Recv(background(t))
		switch {
		case errors.Is(err, ErrDaemonLost):
			losses++
		case err != nil || m.Status != StatusDropped:
			t.Errorf("%+v, %v", &m, err)
		default:
			told += m.Token
		}
	}
	if told != 5 || losses != 1 {
		t.Errorf("operations %d dropped, %d losses of the daemon", told, losses)
	}
	<-stopped
	_, err := a.GetMR(old, 0)
	if !errors.Is(err, ErrWouldBlock) && !errors.Is(err, ErrDaemonLost) {
		t.Errorf("GetMR without a daemon: %v", err)
	}
	d.start()
	eventually(t, "the next daemon", func() bool { return clientHalfOf(a).half.Load() != nil })
	_, _ = a.TryRecv() // reports the loss, if nobody did
	_, err = a.GetMR(old, 0)
	wantErr(t, "GetMR of old memory", err, syscall.EFAULT)
	wantErr(t, "FreeMR of an old cookie", a.FreeMR(own, 0), ErrInvalid)
	o.To, o.HasDest = b.LocalAddrPort(), false
	wantErr(t, "an operation with old memory", a.SendMessage(background(t), &o), syscall.EFAULT)
	wantErr(t, "an old cookie", a.SendMessage(background(t), &Outgoing{To: b.LocalAddrPort(), HasDest: true, Dest: own}), ErrInvalid)
	operate(t, b, a, 4, Outgoing{RDMA: &RDMA{Cookie: own, Local: [][]byte{theirs}, Write: true, Silent: true}})
	wantStatus(t, b, 4, StatusRemoteError)
	fresh := lent(t, a, 8)
	o.RDMA.Local[0] = fresh
	operate(t, a, b, 5, o)
	wantStatus(t, a, 5, StatusSuccess)
}

// CancelSentTo and Close return when nothing has the memory any more.
func TestClientCancelAndCloseWaitForMemory(t *testing.T) {
	t.Parallel()
	for _, end := range []struct {
		name string
		call func(s *Socket, to netip.AddrPort) error
	}{
		{"cancel", func(s *Socket, to netip.AddrPort) error { return s.CancelSentTo(to) }},
		{"close", func(s *Socket, _ netip.AddrPort) error { return s.Close() }},
	} {
		t.Run(end.name, func(t *testing.T) {
			t.Parallel()
			l, n := newOpLab(t)
			svc, c := opService(t, l, n, ServiceConfig{})
			a := bound(t, c, addrOf(newAddr(), 100))
			a.SetLinger(0)
			other := bound(t, c, addrOf(newAddr(), 100))
			b := l.bind(n.node(l, Config{}))
			remote := mustGetMR(t, b, payload(1, 100), 0)
			local := lent(t, a, 100)
			read := Outgoing{RDMA: &RDMA{Cookie: remote, Local: [][]byte{local}, Silent: true}}
			operate(t, a, b, 1, read)
			wantStatus(t, a, 1, StatusSuccess)
			clear(local)
			n.set(func() { n.hold = true })
			operate(t, a, b, 2, read)
			n.waitHeld(t, 1)
			done := make(chan error, 1)
			go func() { done <- end.call(a, b.LocalAddrPort()) }()
			eventually(t, "the wait", func() bool {
				x := lastSession(svc)
				x.mu.Lock()
				defer x.mu.Unlock()
				s := x.sockets[0]
				return s == nil || s.s.ops.ended.n.Load() > 0
			})
			mustSend(t, other, b.LocalAddrPort(), []byte("goes on"))
			expect(t, b, "goes on")
			select {
			case err := <-done:
				t.Fatalf("it did not wait: %v", err)
			default:
			}
			n.release()
			var dropped *DroppedError
			if err := <-done; err != nil && !errors.As(err, &dropped) {
				t.Fatal(err)
			}
			if err := verify(local, 1); err != nil { // in place before the return
				t.Error(err)
			}
			if end.name == "cancel" {
				wantStatus(t, a, 2, StatusCanceled)
			}
		})
	}
}

// An operation is canceled while a link is offered it, and the link has no room: nobody
// has its memory, and its application hears of that and gets its budget back.
func TestClientCancelsWhatALinkDoesNotTake(t *testing.T) {
	t.Parallel()
	l, n := newOpLab(t)
	svc, c := opService(t, l, n, ServiceConfig{})
	a := bound(t, c, addrOf(newAddr(), 100))
	b := l.bind(n.node(l, Config{}))
	remote := mustGetMR(t, b, payload(1, 100), 0)
	read := Outgoing{RDMA: &RDMA{Cookie: remote, Local: [][]byte{lent(t, a, 100)}}}
	operate(t, a, b, 1, read)
	wantStatus(t, a, 1, StatusSuccess)
	x := lastSession(svc)
	x.mu.Lock()
	s := x.sockets[0].s
	x.mu.Unlock()
	n.set(func() { n.full = true })
	operate(t, a, b, 2, read)
	refused := func() bool {
		p := x.node.peerAt(0)
		p.Lock()
		defer p.Unlock()
		return p.Full(0)
	}
	eventually(t, "a link without room", refused)
	done := make(chan error, 1)
	n.set(func() {
		n.tried = func() {
			go func() { done <- a.CancelSentTo(b.LocalAddrPort()) }()
			eventually(t, "the cancel", func() bool {
				ops := s.ops.all()
				s.ops.mu.Lock()
				defer s.ops.mu.Unlock()
				return len(ops) == 1 && ops[0].canceled
			})
		}
	})
	n.writable()
	if err := <-done; err != nil {
		t.Error(err)
	}
	wantStatus(t, a, 2, StatusCanceled)
	eventually(t, "the memory", func() bool { return x.operations.Load() == 0 && x.queued.Load() == 0 })
}

// A completion for an operation that is not known changes nothing.
func TestClientIgnoresUnknownOperations(t *testing.T) {
	t.Parallel()
	l, n := newOpLab(t)
	_, c := opService(t, l, n, ServiceConfig{})
	a := bound(t, c, addrOf(newAddr(), 100))
	h := clientHalfOf(a).half.Load()
	e := ipc.MakeEntry(ipc.OpDone, ipc.FlagTold, 0, h.id, 0, 0, 1, 2, 99)
	clientHalfOf(a).operated(h.t, &e)
	wantNothing(t, a)
}

// A link that does not give memory back makes Close fail, and keeps the pages.
func TestClientCloseWithMemoryThatIsStuck(t *testing.T) {
	t.Parallel()
	l, n := newOpLab(t)
	svc, c := opService(t, l, n, ServiceConfig{})
	a := bound(t, c, addrOf(newAddr(), 100))
	a.SetLinger(0)
	b := l.bind(n.node(l, Config{}))
	remote, local := mustGetMR(t, b, payload(1, 100), 0), lent(t, a, 100)
	n.set(func() { n.hold = true })
	operate(t, a, b, 1, Outgoing{RDMA: &RDMA{Cookie: remote, Local: [][]byte{local}, Silent: true}})
	n.waitHeld(t, 1)
	seg := lastSession(svc).seg
	wantErr(t, "Close", a.Close(), ErrBusy)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	eventually(t, "the end of the session", func() bool { return len(svc.all()) == 0 })
	n.release()
	eventually(t, "the pages to be given back", func() bool {
		return seg.holds.Load() == 0 && verify(seg.MemoryArea()[:100], 1) != nil
	})
}
