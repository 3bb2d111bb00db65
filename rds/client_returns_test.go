package rds

import (
	"net/netip"
	"testing"
)

// An application whose sends to one peer are stuck, up to its budget and its
// ring, goes on receiving from others: the memory it returns is taken all the
// same.
func TestStuckSendsDoNotStopReceiving(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	n, svc, path := served(t, l, Config{}, ServiceConfig{SendBudget: 1 << 20, ReceiveArena: 1 << 20})
	c := dialed(t, path)
	shrink(lastSession(svc), 1<<20)
	careless(c)
	a := bound(t, c, addrOf(newAddr(), 100))
	b := l.bind(l.node(Config{}))
	ctx := background(t)
	nobody := netip.AddrPortFrom(newAddr(), 9)
	for { // until the ring is full
		if err := a.TrySend(nobody, make([]byte, 100)); err != nil {
			wantErr(t, "stuck", err, ErrWouldBlock)
			if info, _ := n.Info(); info.Sessions[0].SendQueued >= 1<<20 {
				break
			}
		}
	}
	const count, size = 400, 64 << 10 // 25 times the arena
	go func() {
		for range count {
			if err := b.Send(ctx, a.LocalAddrPort(), make([]byte, size)); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for i := range count {
		m, err := a.Recv(ctx)
		if err != nil || len(m.Data) != size {
			t.Fatalf("message %d: %v, %v", i, &m, err)
		}
		m.Release()
	}
}

// Memory that is returned when the ring is full is given back when the daemon has taken
// what is there, even if the application then only receives.
func TestReturnsThatFoundTheRingFull(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	_, svc, path := served(t, l, Config{}, ServiceConfig{})
	a := bound(t, dialed(t, path), addrOf(newAddr(), 100))
	b := l.bind(l.node(Config{}))
	const count, size = ringEntries/returnShare + 100, slabInline + 1 // each in a block of its own
	mustSet(t, a.SetReadBuffer(2*count*size))
	var got []Message
	for range count {
		mustSend(t, b, a.LocalAddrPort(), make([]byte, size))
		got = append(got, mustRecv(t, a))
	}
	mustSend(t, a, b.LocalAddrPort(), nil) // which finds the connection
	x := lastSession(svc)
	x.mu.Lock() // takes nothing
	for err := error(nil); err == nil; {
		if err = a.TrySend(b.LocalAddrPort(), nil); err != nil {
			wantErr(t, "full", err, ErrWouldBlock)
		}
	}
	for i := range got {
		got[i].Release()
	}
	u := &clientHalfOf(a).half.Load().t.submission
	u.mu.Lock()
	if len(u.returns) == 0 {
		t.Error("all returns found room")
	}
	u.mu.Unlock()
	x.mu.Unlock()
	x.poke()
	eventually(t, "the memory", func() bool { return x.mem.used() == 0 })
}
