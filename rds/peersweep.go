package rds

import (
	"maps"
	"slices"
	"time"

	"github.com/rds-go/rds/internal/ipc"
)

// The sweep gives numbers again that applications were told of. It runs while few other
// numbers are left.

// sweepSoonLocked schedules a sweep if few numbers are left.
func (n *Node) sweepSoonLocked() {
	x := &n.index
	left := len(x.free) + ipc.MaxPeers - int(min(x.next, ipc.MaxPeers))
	if x.sweeping || len(x.told) == 0 || left > fewNumbers || n.closed || n.leaving.Load() {
		return
	}
	x.sweeping = true
	time.AfterFunc(x.resting()/sweeps, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.closed {
			return
		}
		n.work.Go(func() {
			n.sweep()
			n.mu.Lock()
			defer n.mu.Unlock()
			x.sweeping = false
			n.sweepSoonLocked() // Some numbers have not rested yet, or are still named.
		})
	})
}

// sweep gives the numbers again that were told, have rested, and are named neither by a
// message that waits for a socket nor by a session. Only one sweep runs at a time.
//
// A message goes from a keeper's queue to a socket's, and from there to the spilled
// completions and the ring. The sweep reads the queues in this order, so that it misses no
// message. No new messages name the numbers: their peers have ended.
func (n *Node) sweep() {
	x := &n.index
	rests := func(t toldPeer) bool { return n.now().Sub(t.since) < x.resting() }
	unnamed, named := new(slotSet), new(slotSet)
	n.mu.Lock()
	for _, t := range x.told {
		if !rests(t) {
			unnamed.add(t.Index)
		}
	}
	n.mu.Unlock()
	for _, la := range n.allLocals() {
		la.mu.Lock()
		keepers := slices.Collect(maps.Values(la.keepers))
		la.mu.Unlock()
		for _, k := range keepers {
			nameAll(&k.q, named)
		}
	}
	for _, s := range n.sockets() {
		nameAll(&s.q, named)
	}
	unnamed.remove(named)
	svc := n.server()
	svc.forget(unnamed)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.leaving.Load() { // A successor may have been told already which numbers are taken.
		return
	}
	x.told = slices.DeleteFunc(x.told, func(t toldPeer) bool {
		if rests(t) || !unnamed.has(t.Index) { // restTold may have changed since.
			return false
		}
		svc.retire(t.Index)
		x.freeLocked(t.Index)
		return true
	})
}

// restTold has the numbers rest again that a session knew which has ended: its application
// may still read the ring.
func (n *Node) restTold(known *slotSet) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range n.index.told {
		if t := &n.index.told[i]; known.has(t.Index) {
			t.since = n.now()
		}
	}
}

// nameAll adds the numbers that messages in the queue name to a set.
func nameAll(q *recvQueue, named *slotSet) {
	q.each(func(it *recvItem) bool {
		named.add(it.peer)
		return true
	})
}
