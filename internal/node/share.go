package node

import (
	"sync/atomic"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/lockorder"
)

// A socket's send buffer is accounted for by destination: what waits for a host that
// is down, or for ports that hold it back, must not keep the socket from sending to
// others. conn.HasRoomFor has the rule.

// share is what a socket has queued for one peer.
type share struct {
	conn.Account
	s     *Socket
	p     *Peer
	holds bool // the share holds the peer
}

// shares are those of a socket, and what it needs to wait for room in them.
type shares struct {
	mu     lockorder.Mutex[shares] // guards of and closed; locked before Peer.SharesMu only
	of     map[*Peer]*share
	closed bool

	// waitDown counts the senders among writers whose destination is down. Room
	// for others is not room for them: while there are any all writers are woken.
	waitDown atomic.Int32
}

// Share is the socket's share of a peer, made if needed.
func (s *Socket) Share(p *Peer) *share {
	if h := s.lastShare.Load(); h != nil && h.p == p {
		return h
	}
	return s.findShare(p)
}

func (s *Socket) findShare(p *Peer) *share {
	s.shares.mu.Lock()
	defer s.shares.mu.Unlock()
	h := s.shares.of[p]
	if h == nil {
		h = &share{s: s, p: p}
		h.Owner, h.Whole = s, &s.Account
		if s.shares.of == nil {
			s.shares.of = make(map[*Peer]*share)
		}
		s.shares.of[p] = h
		p.partner.Store(true)
		if !s.shares.closed && p.Retain() {
			h.holds = true
			p.Proved()
			p.SharesMu.Lock()
			if p.shares == nil {
				p.shares = make(map[*share]struct{})
			}
			p.shares[h] = struct{}{}
			h.SetDown(p.Down.Load())
			p.SharesMu.Unlock()
		}
	}
	s.lastShare.Store(h)
	return h
}

// acquainted tells whether somebody of ours has wanted something of the peer: a socket of ours
// has had something for it, or the allow-list names it.
func (p *Peer) acquainted() bool { return p.partner.Load() || p.Node.listed(p.Remote) }

// shareOf is the socket's share of a peer, nil if it has sent nothing to the peer.
func (s *Socket) shareOf(p *Peer) *share {
	s.shares.mu.Lock()
	defer s.shares.mu.Unlock()
	return s.shares.of[p]
}

// forgetShares has peers forget a socket that has ended.
func (s *Socket) forgetShares() {
	var held []*Peer
	s.shares.mu.Lock()
	s.shares.closed = true
	for p, h := range s.shares.of {
		p.SharesMu.Lock()
		delete(p.shares, h)
		p.SharesMu.Unlock()
		if h.holds {
			h.holds = false
			held = append(held, p)
		}
	}
	s.shares.mu.Unlock()
	for _, p := range held {
		p.Release()
	}
}

// heldBytes is what of the send buffer waits for peers that are down or hold it back.
func (s *Socket) heldBytes() int {
	bytes, _ := s.Account.Held()
	return bytes
}

// hasRoom tells whether a message to a destination that is up is taken.
func (s *Socket) hasRoom() bool {
	return s.Account.HasRoom() || conn.HasRoomFor(int64(s.Account.Limit()), int64(s.Account.Bytes()), int64(s.heldBytes()), 0, false)
}

// take takes room in the send buffer for a message of n bytes to the share's peer. Of one
// and a quarter limits, full ports of the peer leave its other ports half of what is not held
// back, and any one message while none is under way to the peer. The next quarter is for
// other peers.
func (h *share) take(n int) bool {
	down := h.p.Down.Load()
	if !down && h.Charge(n) {
		return true
	}
	if full, _ := h.Held(); !down && full > 0 && h.Bytes() > full {
		limit, held := h.s.Account.Limit(), h.s.heldBytes()
		if h.s.Account.Bytes()-held >= (limit+limit/4-held)/2 {
			return false
		}
	}
	return h.ChargeFor(n, down, h.s.heldBytes, h.Bytes())
}

// roomed wakes a sender that waits for room, or all where they wait for different room.
func (s *Socket) roomed() {
	if s.shares.waitDown.Load() > 0 || s.heldBytes() > 0 {
		s.Writers.Wake(-1)
	} else {
		s.Writers.Wake(1)
	}
}

// turnLocked follows a change of p's links: without any the peer is down.
func (p *Peer) turnLocked() {
	down := true
	for i := range conn.MaxPaths {
		down = down && p.Link(i) == nil
	}
	if p.Down.Swap(down) == down {
		return
	}
	p.turned = true
	p.SharesMu.Lock()
	defer p.SharesMu.Unlock()
	for h := range p.shares {
		h.SetDown(down)
	}
}

// reshare tells the sockets that have messages for p, or senders that wait for room, that p
// has come up, or is down, or holds other messages back: other senders have room now.
func (p *Peer) reshare() {
	p.SharesMu.Lock()
	socks := make([]*Socket, 0, len(p.shares))
	for h := range p.shares {
		if h.Bytes() > 0 || h.s.Writers.N.Load() > 0 {
			socks = append(socks, h.s)
		}
	}
	p.SharesMu.Unlock()
	svc := p.Node.Server()
	svc.ShowDown(p)
	svc.MapNews() // wakes senders that p has no message of yet
	for _, s := range socks {
		s.Owner.Reshared()
		s.Writers.Wake(-1)
	}
}
