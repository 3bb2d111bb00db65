package node

import (
	"maps"
	"slices"
	"time"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/socket"
)

// The sweep gives numbers again that applications were told of. It runs while few other
// numbers are left.

// sweepSoonLocked schedules a sweep if few numbers are left.
func (n *Node) sweepSoonLocked() {
	x := &n.Index
	left := len(x.free) + ipc.MaxPeers - int(min(x.next, ipc.MaxPeers))
	if x.sweeping || len(x.Told) == 0 || left > fewNumbers || n.closed || n.Leaving.Load() {
		return
	}
	x.sweeping = true
	time.AfterFunc(x.resting()/sweeps, func() {
		n.Mu.Lock()
		defer n.Mu.Unlock()
		if n.closed {
			return
		}
		n.work.Go(func() {
			n.Sweep()
			n.Mu.Lock()
			defer n.Mu.Unlock()
			x.sweeping = false
			n.sweepSoonLocked() // Some numbers have not rested yet, or are still named.
		})
	})
}

// Sweep gives the numbers again that were told, have rested, and are named neither by a
// message that waits for a socket nor by a session. Only one sweep runs at a time.
//
// A message goes from a keeper's queue to a socket's, and from there to the spilled
// completions and the ring. The sweep reads the queues in this order, so that it misses no
// message. No new messages name the numbers: their peers have ended.
func (n *Node) Sweep() {
	n.NoteNumbers()
	x := &n.Index
	rests := func(t ToldPeer) bool { return time.Since(t.Since) < x.resting() }
	unnamed, named := new(SlotSet), new(SlotSet)
	n.Mu.Lock()
	for _, t := range x.Told {
		if !rests(t) {
			unnamed.Add(t.Index)
		}
	}
	n.Mu.Unlock()
	for _, la := range n.AllLocals() {
		la.Mu.Lock()
		keepers := slices.Collect(maps.Values(la.Keepers))
		la.Mu.Unlock()
		for _, k := range keepers {
			nameAll(&k.Queue, named)
		}
	}
	for _, s := range n.Sockets() {
		nameAll(&s.Queue, named)
	}
	unnamed.Remove(named)
	svc := n.Server()
	svc.Forget(unnamed)
	n.Mu.Lock()
	defer n.Mu.Unlock()
	if n.Leaving.Load() { // A successor may have been told already which numbers are taken.
		return
	}
	x.Told = slices.DeleteFunc(x.Told, func(t ToldPeer) bool {
		if rests(t) || !unnamed.Has(t.Index) { // RestTold may have changed since.
			return false
		}
		svc.Retire(t.Index)
		x.freeLocked(t.Index)
		return true
	})
}

// RestTold has the numbers rest again that a session knew which has ended: its application
// may still read the ring.
func (n *Node) RestTold(known *SlotSet) {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	for i := range n.Index.Told {
		if t := &n.Index.Told[i]; known.Has(t.Index) {
			t.Since = time.Now()
		}
	}
}

// nameAll adds the numbers that messages in the queue name to a set.
func nameAll(q *socket.Queue, named *SlotSet) {
	q.Each(func(it *socket.Item) bool {
		named.Add(it.Peer)
		return true
	})
}
