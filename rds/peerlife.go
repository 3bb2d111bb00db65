package rds

import (
	"slices"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/driver"
)

// The life of a peer. It begins with the first message to a remote address, with the wish
// of an application, or with a link that comes from there. A peer ends with its last link,
// unless somebody here talks to it: a socket that has sent to it and is not closed, a
// session that has looked it up, a call under way. These hold it. What it has delivered to
// bound ports is remembered beyond its end, in sequences.

// endedUsers is the value of peer.users when the peer has ended.
const endedUsers = -1 << 31

// retain keeps a peer from ending, and tells whether it has not ended before.
func (p *peer) retain() bool {
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

// release gives a hold back. The caller holds no lock of the node.
func (p *peer) release() {
	if p.users.Add(-1) == 0 {
		p.node.endIdle(p)
	}
}

// endIdle ends a peer that nobody holds and that has neither a link nor anything that
// waits for one.
func (n *Node) endIdle(p *peer) {
	if p.users.Load() != 0 || n.leaving.Load() { // a successor may need the peer's number
		return
	}
	p.Lock()
	idle := p.spentLocked()
	p.Unlock()
	if !idle {
		return
	}
	n.mu.Lock()
	if n.closed || n.peers[p.key] != p {
		n.mu.Unlock()
		return
	}
	p.Lock()
	if !p.spentLocked() || !p.users.CompareAndSwap(0, endedUsers) {
		p.Unlock()
		n.mu.Unlock()
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
	legacy.Next = [conn.MaxPaths]uint64{} // a later peer's numbers are higher
	p.Unlock()
	delete(n.peers, p.key)
	n.unindexLocked(p)
	p.local.mu.Lock()
	p.local.peers = slices.DeleteFunc(slices.Clone(p.local.peers), func(q *peer) bool { return q == p }) // cloned, because mark reads peers without the lock
	p.local.mu.Unlock()
	n.sequences.end(p.sequence.Load(), legacy, loose, refused, n.now()) // before another peer of the address begins
	p.forgetWire()
	n.mu.Unlock()
	p.close()
	p.proved()
	n.counters.peersEnded.Add(1)
}

// spentLocked tells whether nothing would be missed if the peer ended.
func (p *peer) spentLocked() bool {
	p.Core.Need(p.users.Load() > 0)
	return !p.Gone() && p.Linked() == 0 && len(p.flows) == 0 && p.Core.Idle()
}

// findSequence finds where the last peer of the address, or the node's predecessor, has left
// the receive sequence, and what it had refused; nil if there was none. The caller holds
// Node.mu.
func (p *peer) findSequence() (*sequence, map[int]driver.Refusals) {
	if _, p.own = p.node.locals[p.remote]; p.own {
		return nil, nil
	}
	return p.node.sequences.begin(p.local.addr, p.remote)
}

// inherit takes a receive sequence up, so that what a peer sends again is not received twice.
func (p *peer) inherit(s *sequence, refused map[int]driver.Refusals) {
	if s == nil {
		return
	}
	p.sequence.Store(s)
	for i := range conn.MaxPaths {
		if list := p.node.sequences.received(s, i); len(list) > 0 {
			p.Resume(i, list...)
		}
		p.Inbound(i).Loosen(s.loose[i])
		*p.Refusals(i) = refused[i]
	}
}
