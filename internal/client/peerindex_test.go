package client

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// Numbers of peers, and so slots of the table that applications share, are given again
// when strangers have ended, while an application is attached: however many strangers come,
// the application reaches a new peer. A number that an application was told stays.
func TestSlotsOfStrangersAreUsedAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n, _, path := served(t, l, config.Node{}, config.Service{})
	s := bound(t, dialed(t, path), rdstest.AddrOf(rdstest.NewAddr(), 4000))
	known := l.bind(l.node(config.Node{}))
	rdstest.MustSend(t, known, s.LocalAddrPort(), []byte("hello"))
	rdstest.Expect(t, s, "hello")
	la := n.Local(s.LocalAddrPort().Addr())
	first := n.Index.Next
	for range ipc.MaxPeers + 100 {
		p := n.Accepting(la, node.PeerKey{Local: la.Addr, Remote: rdstest.NewAddr()})
		if p == nil {
			t.Fatal("a stranger is refused")
		}
		p.Release()
	}
	if got := n.Index.Next - first; got > 4 {
		t.Errorf("strangers have used up %d numbers", got)
	}
	_ = nodeOf(known).Close() // its number is on the application's ring, or was
	fresh := l.bind(l.node(config.Node{}))
	rdstest.MustSend(t, s, fresh.LocalAddrPort(), []byte("to a new peer"))
	m := rdstest.MustRecv(t, fresh)
	if m.From != s.LocalAddrPort() {
		t.Errorf("from %v", m.From)
	}
	m.Release()
	rdstest.MustSend(t, fresh, s.LocalAddrPort(), []byte("back"))
	if m = rdstest.MustRecv(t, s); m.From != fresh.LocalAddrPort() {
		t.Errorf("from %v", m.From)
	}
	m.Release()
}

// The numbers of peers that applications have looked up are given again when all others
// were, and their applications have gone.
func TestNumbersOfPeersAreGivenAgain(t *testing.T) {
	t.Parallel()
	n, svc, path := served(t, newLoopLab(t), config.Node{Linger: -1}, config.Service{Users: config.UserShares{Peers: ipc.MaxPeers}})
	n.Mu.Lock()
	n.Index.Next, n.Index.Rest = ipc.MaxPeers-4, 20*time.Millisecond
	n.Mu.Unlock()
	here := rdstest.NewAddr()
	first, second := dialed(t, path), dialed(t, path)
	a, b := bound(t, first, rdstest.AddrOf(here, 5)), bound(t, second, rdstest.AddrOf(here, 6))
	last := netip.MustParseAddr("10.68.0.1")
	next := func() netip.AddrPort { last = last.Next(); return rdstest.AddrOf(last, 9) }
	for range 2 {
		rdstest.MustSend(t, a, next(), []byte("x"))
		rdstest.MustSend(t, b, next(), []byte("x"))
	}
	rdstest.WantErr(t, "one more", b.TrySend(next(), []byte("x")), datagram.ErrTooMany)
	_ = first.Close()
	rdstest.Eventually(t, "the end of peers", func() bool { return len(svc.Users()) == 1 && sharesOf(svc).Sessions == 1 })
	third := dialed(t, path)
	c := bound(t, third, rdstest.AddrOf(here, 7))
	rdstest.Eventually(t, "two numbers to be free", func() bool { return c.TrySend(next(), []byte("x")) == nil })
	rdstest.Eventually(t, "the other one", func() bool { return c.TrySend(next(), []byte("x")) == nil })
	att, err := third.Current()
	if err != nil {
		t.Fatal(err)
	}
	for at, i := range att.resolved {
		if local, remote, ok := att.Table.Peer(int(i)); !ok || local != at[0] || remote != at[1] || i >= ipc.MaxPeers || !att.Table.Down(int(i)) {
			t.Errorf("slot %d is of %v and %v, want %v", i, local, remote, at)
		}
	}
	rdstest.WantErr(t, "one more", c.TrySend(next(), []byte("x")), datagram.ErrTooMany)
}

// sweepByHand has a node, whose numbers below first are not used, sweep only when sweptOf
// is called.
func sweepByHand(n *node.Node, first uint32) {
	n.Mu.Lock()
	n.Index.Next, n.Index.Rest, n.Index.Sweeping = first, time.Nanosecond, true
	n.Mu.Unlock()
}

// sweptOf sweeps, and counts the told numbers that are still not given again.
func sweptOf(n *node.Node) (told int) {
	n.Sweep()
	n.Mu.Lock()
	defer n.Mu.Unlock()
	return len(n.Index.Told)
}

// An application receives a message each from more addresses than the table has slots, one
// after the other, and reaches the last one as it does the first one. Slots are used again
// meanwhile, but no message comes from another address than its sender's, and none is sent
// to another one than the program says. RDS_LONG=1 has the whole table.
func TestSlotsOfSendersAreUsedAgain(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	n, _, path := served(t, l, config.Node{}, config.Service{})
	s := bound(t, dialed(t, path), rdstest.AddrOf(rdstest.NewAddr(), 5))
	senders, slots := 40, uint32(8)
	if os.Getenv("RDS_LONG") != "" {
		senders, slots = ipc.MaxPeers+100, ipc.MaxPeers
	}
	sweepByHand(n, ipc.MaxPeers-slots)
	var held datagram.Message // the first sender's, kept over the use of its slot by others
	for i := range senders {
		far := l.bindOne(config.Node{})
		text := fmt.Sprint("from ", i)
		rdstest.MustSend(t, far, s.LocalAddrPort(), []byte(text))
		m := rdstest.MustRecv(t, s)
		if m.From != far.LocalAddrPort() || string(m.Data) != text {
			t.Fatalf("%q from %v, want %q from %v", m.Data, m.From, text, far.LocalAddrPort())
		}
		if i == 0 {
			held = m
		} else {
			m.Release()
		}
		if i == senders-1 {
			rdstest.MustSend(t, s, far.LocalAddrPort(), []byte("to the last one"))
			rdstest.Expect(t, far, "to the last one")
		}
		_ = nodeOf(far).Close()
		if i < senders-1 {
			rdstest.Eventually(t, "the end of the sender", func() bool { return peersOf(n) == 0 })
			if senders <= 40 || i%1000 == 999 {
				rdstest.Eventually(t, "its slot to be free", func() bool { return sweptOf(n) == 0 })
			}
		}
	}
	n.Mu.Lock()
	next, pages := n.Index.Next, len(*n.Index.Pages.Load())
	n.Mu.Unlock()
	if next > ipc.MaxPeers || pages > ipc.MaxPeers/256 {
		t.Errorf("%d numbers, %d pages", next, pages)
	}
	if string(held.Data) != "from 0" {
		t.Errorf("the message held is %q", held.Data)
	}
	first := l.bind(l.node(config.Node{}), held.From)
	rdstest.MustSend(t, s, held.From, []byte("to the first one"))
	rdstest.Expect(t, first, "to the first one")
	held.Release()
}

// A number is kept while a message that names it waits for a socket, or for the next owner of
// a port, and while a successor may have been told that the number is taken.
func TestNumberIsKeptInQueues(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	n := l.node(config.Node{})
	sweepByHand(n, ipc.MaxPeers-2)
	s := l.bind(n)
	la := n.Local(s.LocalAddrPort().Addr())
	far := l.bindOne(config.Node{})
	rdstest.MustSend(t, far, s.LocalAddrPort(), []byte("x"))
	rdstest.Eventually(t, "the first message", func() bool { return halfOf(s).Queue.Count.Load() == 1 })
	// The sender's map of congested ports is older than this: it does not hold the message back.
	la.Mu.Lock()
	la.ExpectLocked(7)
	la.Mu.Unlock()
	rdstest.MustSend(t, far, rdstest.AddrOf(la.Addr, 7), []byte("x"))
	rdstest.Eventually(t, "both messages", func() bool {
		la.Mu.Lock()
		k := la.Keepers[7]
		la.Mu.Unlock()
		return k != nil && k.Queue.Count.Load() == 1 && halfOf(s).Queue.Count.Load() == 1
	})
	_ = nodeOf(far).Close()
	rdstest.Eventually(t, "the end of the peer", func() bool { return peersOf(n) == 0 })
	kept := func(where string) {
		t.Helper()
		if sweptOf(n) != 1 {
			t.Errorf("the number that %s names is free", where)
		}
	}
	kept("a message of two")
	rdstest.Expect(t, s, "x")
	kept("a message for nobody so far")
	next := l.bind(n, rdstest.AddrOf(la.Addr, 7))
	rdstest.Expect(t, next, "x")
	n.Leaving.Store(true)
	kept("a successor's state")
	n.Leaving.Store(false)
	if told := sweptOf(n); told != 0 {
		t.Errorf("%d numbers are kept", told)
	}
}

// Numbers that are no slots of the table are given again at once, when slots are used up,
// and a successor gives those again that nobody has.
func TestNumbersWithoutSlots(t *testing.T) {
	t.Parallel()
	n := newLoopLab(t).node(config.Node{})
	n.Mu.Lock()
	defer n.Mu.Unlock()
	n.Index.Next = ipc.MaxPeers
	n.Index.FreeLocked(ipc.MaxPeers + 3)
	n.Index.FreeLocked(7)
	for _, want := range []uint32{7, ipc.MaxPeers + 3, ipc.MaxPeers} {
		if got := n.NumberLocked(); got != want {
			t.Errorf("number %d, want %d", got, want)
		}
	}
	n.Index = node.PeerIndex{Next: 4}
	n.Mu.Unlock()
	n.InheritTold([]node.ToldPeer{{Index: 2}, {Index: 5}})
	if n.RemoteOf(2) == nil || n.RemoteOf(3) != nil { // a message of the ended peer may wait for an application
		t.Error("the addresses of peers that have ended are not those that were inherited")
	}
	n.Mu.Lock()
	if x := &n.Index; x.Next != 6 || !slices.Equal(x.Free, []uint32{0, 1, 3, 4}) {
		t.Errorf("next %d, free %v", x.Next, x.Free)
	}
}
