package rds

import (
	"net/netip"
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
	n.index.next, n.index.rest = ipc.MaxPeers-4, time.Nanosecond
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

// A number is not given again while an application that has had messages from its peer, and
// remembers the peer's address, is attached.
func TestNumberOfASenderIsKept(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	n, svc, path := served(t, l, Config{}, ServiceConfig{})
	to := bound(t, dialed(t, path), addrOf(newAddr(), 5))
	far := l.bindOne(Config{})
	mustSend(t, far, to.LocalAddrPort(), []byte("hello"))
	expect(t, to, "hello")
	p := n.known(n.local(to.LocalAddrPort().Addr()), far.LocalAddrPort().Addr())
	if p == nil || !svc.knows(p.index) || svc.knows(p.index+1) {
		t.Fatalf("%+v", p)
	}
	n.mu.Lock()
	n.index.next, n.index.rest = ipc.MaxPeers, time.Nanosecond
	n.index.told = []toldPeer{{Index: p.index}, {Index: p.index + 1}}
	got := []uint32{n.numberLocked(), n.numberLocked()}
	n.mu.Unlock()
	if got[0] != p.index+1 || got[1] != ipc.MaxPeers {
		t.Errorf("numbers %v", got)
	}
}
