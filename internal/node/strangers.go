package node

import (
	"net/netip"
	"time"

	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/rds/info"
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
	mu       lockorder.Mutex[strangers] // guards the fields below; a leaf
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
func (n *Node) accepting(la *Local, key PeerKey) *Peer {
	n.Mu.RLock()
	p := n.Peers[key]
	held := p != nil && p.Retain()
	_, own := n.locals[key.Remote]
	n.Mu.RUnlock()
	if held {
		return p
	}
	stranger := !own && !n.listed(key.Remote) && !n.Sequences.has(addressPair{key.Local, key.Remote})
	if stranger {
		if !n.strangers.enter(key.Remote) {
			n.Counters.strangersRefused.Add(1)
			return nil
		}
		if !n.Sequences.reserve(time.Now()) {
			n.strangers.leave(key.Remote)
			n.Counters.sequencesFull.Add(1)
			return nil
		}
	}
	p, made, err := n.findOrMake(la, key, stranger)
	if stranger && !made {
		n.strangers.leave(key.Remote)
		n.Sequences.unreserve()
	}
	if err != nil {
		return nil
	}
	return p
}

// peersInfo describes the tables of peers, for reports.
func (n *Node) peersInfo() *info.Peers {
	i := &info.Peers{Strangers: n.strangers.size(), MaxStrangers: maxStrangers}
	i.Sequences, _, i.MaxSequences = n.Sequences.size()
	n.Mu.RLock()
	defer n.Mu.RUnlock()
	i.Peers, i.SlotsTold = len(n.Peers), len(n.Index.Told)
	return i
}

// Proved takes a peer out of the count of strangers: it has proved itself, or has ended.
func (p *Peer) Proved() {
	if p.stranger.Load() && p.stranger.Swap(false) {
		p.Node.strangers.leave(p.Remote)
		p.Node.Sequences.unreserve()
	}
}
