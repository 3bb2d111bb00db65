package rds

import (
	"net/netip"
	"sync"

	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/choice"
)

// Limits on strangers. A stranger is a peer that has connected and has proved nothing: it
// has delivered nothing to a bound port, now or before, no socket or session here talks to
// it, and the allow-list does not name it.
const (
	maxStrangers        = 1024 // strangers in all
	maxNetworkStrangers = 256  // strangers of one /24 of IPv4, or one /64 of IPv6
)

// strangers counts strangers.
type strangers struct {
	mu       sync.Mutex // guards the fields below; a leaf
	total    int
	networks map[netip.Prefix]int
}

// enter counts a stranger, if there is room for one.
func (s *strangers) enter(a netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fullLocked(a) {
		return false
	}
	if s.networks == nil {
		s.networks = make(map[netip.Prefix]int)
	}
	s.total++
	s.networks[neighbourhood(a)]++
	return true
}

func (s *strangers) fullLocked(a netip.Addr) bool {
	return s.total >= maxStrangers || s.networks[neighbourhood(a)] >= maxNetworkStrangers
}

// leave takes one out of the count.
func (s *strangers) leave(a netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total--
	if k := neighbourhood(a); s.networks[k] > 1 {
		s.networks[k]--
	} else {
		delete(s.networks, k)
	}
}

func (s *strangers) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// accepting finds or makes the peer of an inbound link, which the caller has to release. It
// returns nil if the link has to be refused: there are too many strangers, or the table of
// receive sequences has no room for another one.
func (n *Node) accepting(la *localAddr, key peerKey) *peer {
	n.mu.RLock()
	p := n.peers[key]
	held := p != nil && p.retain()
	_, own := n.locals[key.remote]
	n.mu.RUnlock()
	if held {
		return p
	}
	stranger := !own && !n.listed(key.remote) && !n.sequences.has(addressPair{key.local, key.remote})
	if stranger {
		if !n.strangers.enter(key.remote) {
			n.counters.strangersRefused.Add(1)
			return nil
		}
		if !n.sequences.reserve(n.now()) {
			n.strangers.leave(key.remote)
			n.counters.sequencesFull.Add(1)
			return nil
		}
	}
	p, made, err := n.findOrMake(la, key, stranger)
	if stranger && !made {
		n.strangers.leave(key.remote)
		n.sequences.unreserve()
	}
	if err != nil {
		return nil
	}
	return p
}

// peersInfo describes the tables of peers, for reports.
func (n *Node) peersInfo() *PeersInfo {
	i := &PeersInfo{Strangers: n.strangers.size(), MaxStrangers: maxStrangers}
	i.Sequences, _, i.MaxSequences = n.sequences.size()
	n.mu.RLock()
	defer n.mu.RUnlock()
	i.Peers, i.SlotsTold = len(n.peers), len(n.index.told)
	return i
}

// proved takes a peer out of the count of strangers: it has proved itself, or has ended.
func (p *peer) proved() {
	if p.stranger.Load() && p.stranger.Swap(false) {
		p.node.strangers.leave(p.remote)
		p.node.sequences.unreserve()
	}
}

// taken follows the start of a link that the peer has dialed: its transport serves the pair.
func (p *peer) taken(l transport.Link) {
	if c, ok := p.via().(*choice.Transport); ok {
		c.Taken(l)
	}
}

// forgetWire has the wire forget what serves a peer that has ended, unless its receive
// sequence is kept: a peer that comes back is then found by the transport that it had.
func (p *peer) forgetWire() {
	if c, ok := p.via().(*choice.Transport); ok {
		if p.sequence.Load() != nil {
			c.Rest(p.local.addr, p.remote)
		} else {
			c.Forget(p.local.addr, p.remote)
		}
	}
}
