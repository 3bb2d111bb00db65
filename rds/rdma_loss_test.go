package rds

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/transport"
)

// write is a write of one byte.
func write(c Cookie, v byte) *RDMA { return &RDMA{Cookie: c, Local: [][]byte{{v}}, Write: true} }

// The peer's RDS takes a link when it has done with the one before. Operations wait for
// that: what the lost one still carries could be placed behind them.
func TestOperationsWaitUntilALinkIsTaken(t *testing.T) {
	t.Parallel()
	l, n := newOpLab(t)
	a := l.bind(n.node(l, Config{}))
	in := &interceptor{Transport: n.net.Transport(), links: make(chan transport.Link, 1)}
	b := l.bind(n.node(l, Config{Transport: in}))
	c := mustGetMR(t, b, make([]byte, 10), 0)
	operate(t, a, b, 1, Outgoing{RDMA: write(c, 1)})
	link := <-in.links
	p := nodeOf(a).peerAt(0)
	eventually(t, "an idle link", func() bool {
		p.Lock()
		defer p.Unlock()
		return p.Core.State(0) == conn.Up && !p.Core.Ready(0)
	})
	if n.count() != 0 {
		t.Error("an operation was begun")
	}
	in.accept(link)
	wantStatus(t, a, 1, StatusSuccess)
}

// What a link has begun is lost with it, message and all, and never begun
// again; what it has not is not. Regions know no link.
func TestMRREQ25LostOperationsAreDroppedRegionsStay(t *testing.T) {
	t.Parallel()
	l, n := newOpLab(t)
	a, b := n.pair(l)
	mem := make([]byte, 10)
	c := mustGetMR(t, b, mem, 0)
	for round := range byte(10) {
		operate(t, a, b, 1, Outgoing{Data: []byte("up"), RDMA: write(c, round)})
		expect(t, b, "up")
		wantStatus(t, a, 1, StatusSuccess)
		n.set(func() { n.hold, n.begun = true, nil })
		got := make([]byte, 1)
		operate(t, a, b, 2, Outgoing{Data: []byte("begun"), RDMA: &RDMA{Cookie: c, Local: [][]byte{got}, Fence: true}})
		operate(t, a, b, 3, Outgoing{Data: []byte("waits"), RDMA: write(c, 100+round)})
		mustSend(t, a, b.LocalAddrPort(), []byte("plain"))
		n.waitHeld(t, 1)
		n.set(func() { n.hold = false })
		cutLinks(nodeOf(a))
		wantStatus(t, a, 2, StatusDropped)
		expect(t, b, "waits")
		expect(t, b, "plain")
		wantStatus(t, a, 3, StatusSuccess)
		if mem[0] != 100+round {
			t.Errorf("round %d: the region holds %d", round, mem[0])
		}
		n.set(func() {
			if len(n.begun) != 2 {
				t.Errorf("round %d: %d operations begun", round, len(n.begun))
			}
		})
	}
}

// The fate of an operation that is lost comes when its memory is free, however
// late the link gives that back; meanwhile the connection waits.
func TestDroppedFateFollowsTheMemory(t *testing.T) {
	t.Parallel()
	l, n := newOpLab(t)
	a, b := n.pair(l)
	c := mustGetMR(t, b, make([]byte, 10), 0)
	n.set(func() { n.hold, n.late = true, true })
	operate(t, a, b, 1, Outgoing{Data: []byte("lost"), RDMA: &RDMA{Cookie: c, Local: [][]byte{make([]byte, 1)}, Fence: true}})
	mustSend(t, a, b.LocalAddrPort(), []byte("repeated"))
	n.waitHeld(t, 1)
	cutLinks(nodeOf(a))
	ended := func() bool {
		p, err := halfOf(a).peerFor(b.LocalAddrPort().Addr())
		if err != nil {
			return false
		}
		p.Lock()
		defer p.Unlock()
		return p.Core.State(0) == conn.Error
	}
	eventually(t, "the end of the link", ended)
	wantNothing(t, a)
	n.set(func() { n.hold = false })
	n.lose(nil)
	wantStatus(t, a, 1, StatusDropped)
	expect(t, b, "repeated")
}

// Without Notify, RecvErr tells of what was lost and of what was refused.
func TestRecvErrOfOperations(t *testing.T) {
	t.Parallel()
	l, n := newOpLab(t)
	a, b := n.pair(l)
	c := mustGetMR(t, b, make([]byte, 10), 0)
	if err := a.SetRecvErr(true); err != nil {
		t.Fatal(err)
	}
	to := b.LocalAddrPort()
	for _, r := range []*RDMA{write(c, 1), write(c+1, 1)} {
		if err := a.SendMessage(background(t), &Outgoing{To: to, RDMA: r}); err != nil {
			t.Fatal(err)
		}
	}
	wantStatus(t, a, 0, StatusRemoteError)
	n.set(func() { n.hold = true })
	if err := a.SendMessage(background(t), &Outgoing{To: to, RDMA: &RDMA{Cookie: c, Local: [][]byte{{1}}, Silent: true}}); err != nil {
		t.Fatal(err)
	}
	n.waitHeld(t, 1)
	cutLinks(nodeOf(a))
	wantStatus(t, a, 0, StatusDropped)
}

// A message is canceled before its operation is begun, or after; CancelSentTo
// returns when the memory is the caller's.
func TestCancelOperations(t *testing.T) {
	t.Parallel()
	l, n := newOpLab(t)
	a, b := n.pair(l)
	mem := make([]byte, 10)
	c := mustGetMR(t, b, mem, 0)
	operate(t, a, b, 1, Outgoing{RDMA: write(c, 1), Data: []byte("up")})
	expect(t, b, "up")
	wantStatus(t, a, 1, StatusSuccess)

	n.set(func() { n.full = true })
	operate(t, a, b, 2, Outgoing{RDMA: write(c, 2), Data: []byte("canceled")})
	if err := a.CancelSentTo(b.LocalAddrPort()); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, a, 2, StatusCanceled)
	n.open()
	mustSend(t, a, b.LocalAddrPort(), []byte("next"))
	expect(t, b, "next")
	if mem[0] != 1 {
		t.Error("a canceled write was done")
	}

	n.set(func() { n.hold = true })
	operate(t, a, b, 3, Outgoing{RDMA: &RDMA{Cookie: c, Local: [][]byte{make([]byte, 1)}, Silent: true}})
	n.waitHeld(t, 1)
	if err := a.CancelSentTo(addrOf(b.LocalAddrPort().Addr(), 9)); err != nil { // not concerned
		t.Fatal(err)
	}
	canceled := make(chan error, 1)
	go func() { canceled <- a.CancelSentTo(b.LocalAddrPort()) }()
	eventually(t, "a canceled message", func() bool { return halfOf(a).account.Messages() == 0 })
	wantNothing(t, a)
	select {
	case err := <-canceled:
		t.Errorf("returned %v with the memory at the link", err)
	default:
	}
	n.release()
	if err := <-canceled; err != nil {
		t.Error(err)
	}
	wantStatus(t, a, 3, StatusCanceled)
	wantNothing(t, a)
	mustSend(t, a, b.LocalAddrPort(), []byte("last"))
	expect(t, b, "last")
}

// Close returns when nobody touches the socket's memory any more: neither what
// it exposed nor what its own operations use.
func TestCloseTakesMemoryBack(t *testing.T) {
	t.Parallel()
	l, n := newOpLab(t)
	a, b := n.pair(l)
	mem := make([]byte, 10)
	c := mustGetMR(t, b, mem, 0)
	other := l.bind(nodeOf(b), addrOf(b.LocalAddrPort().Addr(), 4001))
	kept := mustGetMR(t, other, make([]byte, 10), 0)
	operate(t, a, b, 1, Outgoing{RDMA: write(c, 1)})
	wantStatus(t, a, 1, StatusSuccess)

	n.set(func() { n.hold = true })
	operate(t, a, b, 2, Outgoing{RDMA: &RDMA{Cookie: c, Local: [][]byte{make([]byte, 1)}}})
	n.waitHeld(t, 1)
	done := make(chan error, 1)
	go func() { done <- a.Close() }()
	select {
	case err := <-done:
		t.Fatalf("closed, %v, with the memory at the link", err)
	case <-time.After(20 * time.Millisecond):
	}
	n.release()
	var dropped *DroppedError
	if err := <-done; err != nil && !errors.As(err, &dropped) {
		t.Error(err)
	}

	if err := b.Close(); err != nil {
		t.Error(err)
	}
	again := l.bind(nodeOf(a), addrOf(a.LocalAddrPort().Addr(), 4002))
	operate(t, again, other, 3, Outgoing{RDMA: write(c, 3)})
	wantStatus(t, again, 3, StatusRemoteError)
	operate(t, again, other, 4, Outgoing{RDMA: write(kept, 4)})
	wantStatus(t, again, 4, StatusSuccess)
	dev, _, err := nodeOf(b).regions()
	if err != nil {
		t.Fatal(err)
	}
	if st := dev.Stats(); st.Small.Live != 1 {
		t.Errorf("%d regions live", st.Small.Live)
	}
	if err := b.FreeMR(c, 0); !closed(err) {
		t.Errorf("FreeMR: %v", err)
	}
	if _, err := b.GetMR(mem, 0); !closed(err) {
		t.Errorf("GetMR: %v", err)
	}
	if _, err := b.AllocMemory(1); !closed(err) {
		t.Errorf("AllocMemory: %v", err)
	}
}

// Neither waits for a link that does not give memory back for ever.
func TestMemoryThatDoesNotComeBack(t *testing.T) {
	t.Parallel()
	l, n := newOpLab(t)
	a, b := n.pair(l)
	c := mustGetMR(t, b, make([]byte, 10), 0)
	n.set(func() { n.hold = true })
	operate(t, a, b, 1, Outgoing{RDMA: &RDMA{Cookie: c, Local: [][]byte{make([]byte, 1)}}})
	n.waitHeld(t, 1)
	wantErr(t, "CancelSentTo", a.CancelSentTo(b.LocalAddrPort()), ErrBusy, syscall.EBUSY)
	n.release()
}

// What a node does not know yet it finds out: a send that does not block fails
// and has the host connected, one that blocks waits for that.
func TestFirstOperationConnects(t *testing.T) {
	t.Parallel()
	l, n := newOpLab(t)
	small, large := n.pair(l)
	c := mustGetMR(t, large, make([]byte, 10), 0)
	o := Outgoing{To: large.LocalAddrPort(), RDMA: write(c, 1)}
	wantErr(t, "first try", small.TrySendMessage(&o), ErrWouldBlock)
	eventually(t, "a connection", func() bool { return small.TrySendMessage(&o) == nil })
	expect(t, large, "")

	// From the larger address, and blocking.
	l, n = newOpLab(t)
	small, large = n.pair(l)
	c = mustGetMR(t, small, make([]byte, 10), 0)
	operate(t, large, small, 1, Outgoing{RDMA: write(c, 1)})
	wantStatus(t, large, 1, StatusSuccess)

	// Nobody there.
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	o.To = nowhere()
	wantErr(t, "nobody", small.SendMessage(ctx, &o), context.DeadlineExceeded)
	_ = small.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
	wantErr(t, "nobody", small.SendMessage(background(t), &o), os.ErrDeadlineExceeded)
	_ = small.SetWriteDeadline(time.Time{})
	waiting := make(chan error, 1)
	go func() { waiting <- small.SendMessage(background(t), &o) }()
	p, err := halfOf(small).peerFor(o.To.Addr())
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "a sender that waits", func() bool { return p.waiters.n.Load() > 0 })
	_ = small.Close()
	if err := <-waiting; !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed under the sender: %v", err)
	}
}

// A host whose links carry no operations, a node without them, and a provider.
func TestOperationsNotSupported(t *testing.T) {
	t.Parallel()
	l, n := newOpLab(t)
	n.plain = true
	a, b := n.pair(l)
	plainA, plainB := newLab(t).pair(Config{Wire: WireTCP})
	loopA, loopB := newLoopLab(t).pair(Config{})
	one := []byte{1}
	for _, x := range []struct {
		name     string
		from, to *Socket
		exposes  bool
	}{{"a host without", a, b, true}, {"tcp", plainA, plainB, false}, {"loop", loopA, loopB, false}} {
		var offers Cookie
		c, err := x.from.GetMR(one, 0)
		if x.exposes {
			if err != nil {
				t.Errorf("%s: %v", x.name, err)
			}
			offers = c
		} else {
			wantErr(t, x.name+", GetMR", err, ErrNotSupported, syscall.EOPNOTSUPP)
			_, err = x.from.GetMRForDest(x.to.LocalAddrPort(), one, 0)
			wantErr(t, x.name+", GetMRForDest", err, syscall.EOPNOTSUPP)
			_, err = x.from.AllocMemory(1)
			wantErr(t, x.name+", AllocMemory", err, syscall.EOPNOTSUPP)
			wantErr(t, x.name+", FreeMR", x.from.FreeMR(0, 0), syscall.EINVAL) // as Linux over TCP
			wantErr(t, x.name+", Dest", x.from.SendMessage(background(t), &Outgoing{To: x.to.LocalAddrPort(), HasDest: true, Dest: 1}), syscall.EINVAL)
		}
		for _, o := range []Outgoing{
			{RDMA: write(1, 1)}, {Atomic: &Atomic{}}, {Map: &Map{Memory: one}}, {HasDest: true, Dest: offers},
		} {
			if o.HasDest && !x.exposes {
				continue
			}
			o.To = x.to.LocalAddrPort()
			wantErr(t, x.name, x.from.SendMessage(background(t), &o), ErrNotSupported, syscall.EOPNOTSUPP)
		}
		mustSend(t, x.from, x.to.LocalAddrPort(), []byte("still there"))
		expect(t, x.to, "still there")
	}
	if s := halfOf(a).exposed.keys; len(s) != 1 {
		t.Errorf("%d regions after sends that failed", len(s))
	}
}

// A peer that comes back without operations gets none of what waited for it,
// and no cookie, which kills a process under Linux; the rest arrives.
func TestPeerComesBackWithoutOperations(t *testing.T) {
	t.Parallel()
	l, n := newOpLab(t)
	a, b := n.pair(l)
	c := mustGetMR(t, b, make([]byte, 10), 0)
	own := mustGetMR(t, a, make([]byte, 10), 0)
	mustSend(t, a, b.LocalAddrPort(), []byte("up"))
	expect(t, b, "up")
	n.set(func() { n.full, n.plain = true, true })
	operate(t, a, b, 1, Outgoing{RDMA: write(c, 1), Data: []byte("lost")})
	operate(t, a, b, 2, Outgoing{HasDest: true, Dest: own, Data: []byte("lost")})
	operate(t, a, b, 3, Outgoing{RDMA: &RDMA{Cookie: c, Local: [][]byte{{1}}, Silent: true}})
	mustSend(t, a, b.LocalAddrPort(), []byte("plain"))
	cutLinks(nodeOf(a))
	for token := range uint64(3) {
		wantStatus(t, a, token+1, StatusOtherError)
	}
	expect(t, b, "plain")
	wantErr(t, "then", a.SendMessage(background(t), &Outgoing{To: b.LocalAddrPort(), RDMA: write(c, 1)}), ErrNotSupported)
	n.set(func() { n.full, n.plain = false, false })
	cutLinks(nodeOf(a))
	eventually(t, "operations again", func() bool {
		return a.TrySendMessage(&Outgoing{To: b.LocalAddrPort(), RDMA: write(c, 1)}) == nil
	})
	expect(t, b, "")
}
