package rds

import (
	"testing"

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
