//go:build !live

package node

import (
	"slices"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
)

// sweepByHand has a node, whose numbers below first are not used, sweep only when sweptOf
// is called.
func sweepByHand(n *Node, first uint32) {
	n.Mu.Lock()
	n.Index.next, n.Index.sweeping = first, true
	n.Mu.Unlock()
}

// sweptOf sweeps when numbers have rested, and counts those told that are still not given again.
func sweptOf(n *Node) (told int) {
	<-time.After(numberRest)
	n.Sweep()
	n.Mu.Lock()
	defer n.Mu.Unlock()
	return len(n.Index.Told)
}

// A number is kept while a message that names it waits for a socket, or for the next owner of
// a port, and while a successor may have been told that the number is taken.
func TestNumberIsKeptInQueues(t *testing.T) {
	bubble(t, newLoopLab, func(t *testing.T, l *lab) {
		n := l.node(config.Node{})
		sweepByHand(n, ipc.MaxPeers-2)
		s := l.bind(n)
		la := n.Local(s.LocalAddrPort().Addr())
		far := l.bindOne(config.Node{})
		rdstest.MustSend(t, far, s.LocalAddrPort(), []byte("x"))
		rdstest.Eventually(t, "the first message", func() bool { return halfOf(s).Queue.Count.Load() == 1 })
		// The sender's map of congested ports is older than this: it does not hold the message back.
		la.Mu.Lock()
		la.expectLocked(7, nil)
		la.Mu.Unlock()
		rdstest.MustSend(t, far, rdstest.AddrOf(la.Addr, 7), []byte("x"))
		rdstest.Eventually(t, "both messages", func() bool {
			la.Mu.Lock()
			k := la.Keepers[7]
			la.Mu.Unlock()
			return k != nil && k.Queue.Count.Load() == 1 && halfOf(s).Queue.Count.Load() == 1
		})
		_ = nodeOf(far).Close()
		rdstest.Eventually(t, "the end of the peer", func() bool { return rdstest.Peers(n) == 0 })
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
	})
}

// Numbers that are no slots of the table are given again at once, when slots are used up,
// and a successor gives those again that nobody has.
func TestNumbersWithoutSlots(t *testing.T) {
	t.Parallel()
	n := newLoopLab(t).node(config.Node{})
	n.Mu.Lock()
	defer n.Mu.Unlock()
	n.Index.next = ipc.MaxPeers
	n.Index.freeLocked(ipc.MaxPeers + 3)
	n.Index.freeLocked(7)
	for _, want := range []uint32{7, ipc.MaxPeers + 3, ipc.MaxPeers} {
		if got := n.numberLocked(); got != want {
			t.Errorf("number %d, want %d", got, want)
		}
	}
	n.Index = peerIndex{next: 4}
	n.Mu.Unlock()
	n.InheritTold([]ToldPeer{{Index: 2}, {Index: 5}})
	if n.RemoteOf(2) == nil || n.RemoteOf(3) != nil { // a message of the ended peer may wait for an application
		t.Error("the addresses of peers that have ended are not those that were inherited")
	}
	n.Mu.Lock()
	if x := &n.Index; x.next != 6 || !slices.Equal(x.free, []uint32{0, 1, 3, 4}) {
		t.Errorf("next %d, free %v", x.next, x.free)
	}
}
