package rds

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/ipc"
)

// Numbers of peers, and so slots of the table that applications share, are given again
// when strangers have ended, while an application is attached: however many strangers come,
// the application reaches a new peer. A number that an application was told stays.
func TestSlotsOfStrangersAreUsedAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n, _, path := served(t, l, Config{}, ServiceConfig{})
	s := bound(t, dialed(t, path), addrOf(newAddr(), 4000))
	known := l.bind(l.node(Config{}))
	mustSend(t, known, s.LocalAddrPort(), []byte("hello"))
	expect(t, s, "hello")
	la := n.local(s.LocalAddrPort().Addr())
	first := n.index.next
	for range ipc.MaxPeers + 100 {
		p := n.accepting(la, peerKey{local: la.addr, remote: newAddr()})
		if p == nil {
			t.Fatal("a stranger is refused")
		}
		p.release()
	}
	if got := n.index.next - first; got > 4 {
		t.Errorf("strangers have used up %d numbers", got)
	}
	_ = nodeOf(known).Close() // its number is on the application's ring, or was
	fresh := l.bind(l.node(Config{}))
	mustSend(t, s, fresh.LocalAddrPort(), []byte("to a new peer"))
	m := mustRecv(t, fresh)
	if m.From != s.LocalAddrPort() {
		t.Errorf("from %v", m.From)
	}
	m.Release()
	mustSend(t, fresh, s.LocalAddrPort(), []byte("back"))
	if m = mustRecv(t, s); m.From != fresh.LocalAddrPort() {
		t.Errorf("from %v", m.From)
	}
	m.Release()
}

// The numbers of peers that applications have looked up are given again when all others
// were, and their applications have gone.
func TestNumbersOfPeersAreGivenAgain(t *testing.T) {
	t.Parallel()
	n, svc, path := served(t, newLoopLab(t), Config{Linger: -1}, ServiceConfig{Users: UserShares{Peers: ipc.MaxPeers}})
	n.mu.Lock()
	n.index.next, n.index.rest = ipc.MaxPeers-4, 20*time.Millisecond
	n.mu.Unlock()
	here := newAddr()
	first, second := dialed(t, path), dialed(t, path)
	a, b := bound(t, first, addrOf(here, 5)), bound(t, second, addrOf(here, 6))
	last := netip.MustParseAddr("10.68.0.1")
	next := func() netip.AddrPort { last = last.Next(); return addrOf(last, 9) }
	for range 2 {
		mustSend(t, a, next(), []byte("x"))
		mustSend(t, b, next(), []byte("x"))
	}
	wantErr(t, "one more", b.TrySend(next(), []byte("x")), ErrTooMany)
	_ = first.Close()
	eventually(t, "the end of peers", func() bool { return len(svc.Users()) == 1 && sharesOf(svc).Sessions == 1 })
	third := dialed(t, path)
	c := bound(t, third, addrOf(here, 7))
	eventually(t, "two numbers to be free", func() bool { return c.TrySend(next(), []byte("x")) == nil })
	eventually(t, "the other one", func() bool { return c.TrySend(next(), []byte("x")) == nil })
	att, err := third.current()
	if err != nil {
		t.Fatal(err)
	}
	for at, i := range att.resolved {
		if local, remote, ok := att.table.Peer(int(i)); !ok || local != at[0] || remote != at[1] || i >= ipc.MaxPeers || !att.table.Down(int(i)) {
			t.Errorf("slot %d is of %v and %v, want %v", i, local, remote, at)
		}
	}
	wantErr(t, "one more", c.TrySend(next(), []byte("x")), ErrTooMany)
}

// sweepByHand has a node, whose numbers below first are not used, sweep only when sweptOf
// is called.
func sweepByHand(n *Node, first uint32) {
	n.mu.Lock()
	n.index.next, n.index.rest, n.index.sweeping = first, time.Nanosecond, true
	n.mu.Unlock()
}

// sweptOf sweeps, and counts the told numbers that are still not given again.
func sweptOf(n *Node) (told int) {
	n.sweep()
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.index.told)
}

// An application receives a message each from more addresses than the table has slots, one
// after the other, and reaches the last one as it does the first one. Slots are used again
// meanwhile, but no message comes from another address than its sender's, and none is sent
// to another one than the program says. RDS_LONG=1 has the whole table.
func TestSlotsOfSendersAreUsedAgain(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	n, _, path := served(t, l, Config{}, ServiceConfig{})
	s := bound(t, dialed(t, path), addrOf(newAddr(), 5))
	senders, slots := 40, uint32(8)
	if os.Getenv("RDS_LONG") != "" {
		senders, slots = ipc.MaxPeers+100, ipc.MaxPeers
	}
	sweepByHand(n, ipc.MaxPeers-slots)
	var held Message // the first sender's, kept over the use of its slot by others
	for i := range senders {
		far := l.bindOne(Config{})
		text := fmt.Sprint("from ", i)
		mustSend(t, far, s.LocalAddrPort(), []byte(text))
		m := mustRecv(t, s)
		if m.From != far.LocalAddrPort() || string(m.Data) != text {
			t.Fatalf("%q from %v, want %q from %v", m.Data, m.From, text, far.LocalAddrPort())
		}
		if i == 0 {
			held = m
		} else {
			m.Release()
		}
		if i == senders-1 {
			mustSend(t, s, far.LocalAddrPort(), []byte("to the last one"))
			expect(t, far, "to the last one")
		}
		_ = nodeOf(far).Close()
		if i < senders-1 {
			eventually(t, "the end of the sender", func() bool { return peersOf(n) == 0 })
			if senders <= 40 || i%1000 == 999 {
				eventually(t, "its slot to be free", func() bool { return sweptOf(n) == 0 })
			}
		}
	}
	n.mu.Lock()
	next, pages := n.index.next, len(*n.index.pages.Load())
	n.mu.Unlock()
	if next > ipc.MaxPeers || pages > ipc.MaxPeers/256 {
		t.Errorf("%d numbers, %d pages", next, pages)
	}
	if string(held.Data) != "from 0" {
		t.Errorf("the message held is %q", held.Data)
	}
	first := l.bind(l.node(Config{}), held.From)
	mustSend(t, s, held.From, []byte("to the first one"))
	expect(t, first, "to the first one")
	held.Release()
}

// A number is kept while a message that names it waits for a socket, or for the next owner of
// a port, and while a successor may have been told that the number is taken.
func TestNumberIsKeptInQueues(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	n := l.node(Config{})
	sweepByHand(n, ipc.MaxPeers-2)
	s := l.bind(n)
	la := n.local(s.LocalAddrPort().Addr())
	far := l.bindOne(Config{})
	mustSend(t, far, s.LocalAddrPort(), []byte("x"))
	eventually(t, "the first message", func() bool { return halfOf(s).q.count.Load() == 1 })
	// The sender's map of congested ports is older than this: it does not hold the message back.
	la.mu.Lock()
	la.expectLocked(7)
	la.mu.Unlock()
	mustSend(t, far, addrOf(la.addr, 7), []byte("x"))
	eventually(t, "both messages", func() bool {
		la.mu.Lock()
		k := la.keepers[7]
		la.mu.Unlock()
		return k != nil && k.q.count.Load() == 1 && halfOf(s).q.count.Load() == 1
	})
	_ = nodeOf(far).Close()
	eventually(t, "the end of the peer", func() bool { return peersOf(n) == 0 })
	kept := func(where string) {
		t.Helper()
		if sweptOf(n) != 1 {
			t.Errorf("the number that %s names is free", where)
		}
	}
	kept("a message of two")
	expect(t, s, "x")
	kept("a message for nobody so far")
	next := l.bind(n, addrOf(la.addr, 7))
	expect(t, next, "x")
	n.leaving.Store(true)
	kept("a successor's state")
	n.leaving.Store(false)
	if told := sweptOf(n); told != 0 {
		t.Errorf("%d numbers are kept", told)
	}
}

// Numbers that are no slots of the table are given again at once, when slots are used up,
// and a successor gives those again that nobody has.
func TestNumbersWithoutSlots(t *testing.T) {
	t.Parallel()
	n := newLoopLab(t).node(Config{})
	n.mu.Lock()
	defer n.mu.Unlock()
	n.index.next = ipc.MaxPeers
	n.index.freeLocked(ipc.MaxPeers + 3)
	n.index.freeLocked(7)
	for _, want := range []uint32{7, ipc.MaxPeers + 3, ipc.MaxPeers} {
		if got := n.numberLocked(); got != want {
			t.Errorf("number %d, want %d", got, want)
		}
	}
	n.index = peerIndex{next: 4}
	n.mu.Unlock()
	n.inheritTold([]toldPeer{{Index: 2}, {Index: 5}})
	if n.remoteOf(2) == nil || n.remoteOf(3) != nil { // a message of the ended peer may wait for an application
		t.Error("the addresses of peers that have ended are not those that were inherited")
	}
	n.mu.Lock()
	if x := &n.index; x.next != 6 || !slices.Equal(x.free, []uint32{0, 1, 3, 4}) {
		t.Errorf("next %d, free %v", x.next, x.free)
	}
}
