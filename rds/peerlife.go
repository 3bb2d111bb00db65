package rds

import (
	"slices"

	"github.com/rds-go/rds/conn"
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

// needLocked tells the core whether somebody holds the peer: otherwise it does not try to
// keep a link.
func (p *peer) needLocked() { p.core.Need(p.users.Load() > 0) }

// endIdle ends a peer that nobody holds and that has neither a link nor anything that
// waits for one.
func (n *Node) endIdle(p *peer) {
	if p.users.Load() != 0 || n.leaving.Load() { // a successor may need the peer's number
		return
	}
	p.mu.Lock()
	idle := p.spentLocked()
	p.mu.Unlock()
	if !idle {
		return
	}
	n.mu.Lock()
	if n.closed || n.peers[p.key] != p {
		n.mu.Unlock()
		return
	}
	p.mu.Lock()
	if !p.spentLocked() || !p.users.CompareAndSwap(0, endedUsers) {
		p.mu.Unlock()
		n.mu.Unlock()
		return
	}
	refused := make(map[int]refusals)
	for i := range p.path {
		if q := &p.path[i].refused; !q.empty() || len(q.others) > 0 {
			refused[i] = *q
		}
	}
	n.endedCounters.Add(p.countersLocked())
	legacy := p.core.Legacy()
	legacy.Next = [conn.MaxPaths]uint64{} // a later peer's numbers are higher
	p.mu.Unlock()
	delete(n.peers, p.key)
	n.unindexLocked(p)
	p.local.mu.Lock()
	p.local.peers = slices.DeleteFunc(slices.Clone(p.local.peers), func(q *peer) bool { return q == p }) // cloned, because mark reads peers without the lock
	p.local.mu.Unlock()
	n.sequences.end(p.sequence.Load(), legacy, refused, n.now()) // before another peer of the address begins
	p.forgetWire()
	n.mu.Unlock()
	p.close()
	p.proved()
	n.counters.peersEnded.Add(1)
}

// spentLocked tells whether nothing would be missed if the peer ended.
func (p *peer) spentLocked() bool {
	p.needLocked()
	return !p.gone.Load() && len(p.links) == 0 && len(p.flows) == 0 && len(p.ending) == 0 && p.core.Idle()
}

// inherit takes up the receive sequence where the last peer of the address, or the node's
// predecessor, has left it, so that what a peer sends again is not received twice, and
// returns what was known of the peer then. The caller holds Node.mu.
func (p *peer) inherit() (l conn.Legacy) {
	if _, p.own = p.node.locals[p.remote]; p.own {
		return l
	}
	s, refused := p.node.sequences.begin(p.local.addr, p.remote)
	if s == nil {
		return l
	}
	p.sequence.Store(s)
	for i := range p.path {
		io := &p.path[i]
		if list := p.node.sequences.received(s, i); len(list) > 0 {
			io.in = conn.InboundFrom(list...)
			io.nextRX.Store(io.in.Next())
		}
		io.refused = refused[i]
	}
	l = s.legacy
	l.Generation = s.records[0].Generation.Load()
	return l
}
