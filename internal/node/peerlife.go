package node

import (
	"slices"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/driver"
)

// The life of a peer. It begins with the first message to a remote address, with the wish
// of an application, or with a link that comes from there. A peer ends with its last link,
// unless somebody here talks to it: a socket that has sent to it and is not closed, a
// session that has looked it up, a call under way. These hold it. What it has delivered to
// bound ports is remembered beyond its end, in sequences.

// endedUsers is the value of Peer.users when the peer has ended.
const endedUsers = -1 << 31

// Retain keeps a peer from ending, and tells whether it has not ended before.
func (p *Peer) Retain() bool {
	for {
		n := p.users.Load()
		if n < 0 {
			return false
		}
		if p.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Release gives a hold back. The caller holds no lock of the node.
func (p *Peer) Release() {
	if p.users.Add(-1) == 0 {
		p.Node.endIdle(p)
	}
}

// endIdle ends a peer that nobody holds and that has neither a link nor anything that
// waits for one.
func (n *Node) endIdle(p *Peer) {
	if p.users.Load() != 0 || n.Leaving.Load() { // a successor may need the peer's number
		return
	}
	p.Lock()
	idle := p.spentLocked()
	p.Unlock()
	if !idle {
		return
	}
	n.Mu.Lock()
	if n.closed || n.Peers[p.key] != p {
		n.Mu.Unlock()
		return
	}
	p.Lock()
	if !p.spentLocked() || !p.users.CompareAndSwap(0, endedUsers) {
		p.Unlock()
		n.Mu.Unlock()
		return
	}
	refused := make(map[int]driver.Refusals)
	var loose [conn.MaxPaths]uint64
	for i := range conn.MaxPaths {
		if q := p.Refusals(i); !q.Empty() {
			refused[i] = *q
		}
		loose[i] = p.Inbound(i).Loose()
	}
	n.endedCounters.Add(p.countersLocked())
	legacy := p.Core.Legacy()
	n.numbers.note(legacy.Next[:]...)
	legacy.Next = [conn.MaxPaths]uint64{} // a later peer's numbers are higher
	p.Unlock()
	delete(n.Peers, p.key)
	n.unindexLocked(p)
	p.Local.Mu.Lock()
	p.Local.peers = slices.DeleteFunc(slices.Clone(p.Local.peers), func(q *Peer) bool { return q == p }) // cloned, because mark reads peers without the lock
	p.Local.Mu.Unlock()
	n.Sequences.end(p.sequence.Load(), legacy, loose, refused, time.Now()) // before another peer of the address begins
	// What serves the peer is kept with its sequence, for when the peer comes back.
	if p.Choice != nil {
		p.Choice.Ended(p.Local.Addr, p.Remote, p.sequence.Load() != nil)
	}
	n.Mu.Unlock()
	p.close()
	p.Proved()
	n.Counters.peersEnded.Add(1)
}

// spentLocked tells whether nothing would be missed if the peer ended.
func (p *Peer) spentLocked() bool {
	p.Core.Need(p.users.Load() > 0)
	return !p.Gone() && p.Linked() == 0 && len(p.Flows) == 0 && p.Core.Idle()
}

// findSequence finds where the last peer of the address, or the node's predecessor, has left
// the receive sequence, and what it had refused; nil if there was none. The caller holds
// Node.Mu.
func (p *Peer) findSequence() (*sequence, map[int]driver.Refusals) {
	if _, p.own = p.Node.locals[p.Remote]; p.own {
		return nil, nil
	}
	return p.Node.Sequences.begin(p.Local.Addr, p.Remote)
}

// inherit takes a receive sequence up, so that what a peer sends again is not received twice.
func (p *Peer) inherit(s *sequence, refused map[int]driver.Refusals) {
	if s == nil {
		return
	}
	p.sequence.Store(s)
	for i := range conn.MaxPaths {
		if list := p.Node.Sequences.received(s, i); len(list) > 0 {
			p.Resume(i, list...)
		}
		p.Inbound(i).Loosen(s.loose[i])
		*p.Refusals(i) = refused[i]
	}
}
