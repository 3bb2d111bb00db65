package rds

import (
	"cmp"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/internal/ipc"
)

// peerIndex finds peers by number. It grows under Node.mu; who looks a peer up takes no lock.
//
// A number is given again when its peer has ended and nobody was told of it: no message of
// the peer went to a socket's queue, and so to no application's ring, and no application has
// looked the peer up. A number that was told stays what it was, for entries that applications
// have not read yet, and for what they remember: when all others are given it is given again
// if no session that is attached was told, and a minute after its peer has ended.
type peerIndex struct {
	pages atomic.Pointer[[]*peerPage]
	next  uint32        // lowest number that was never given; guarded by Node.mu
	free  []uint32      // numbers to be given again; guarded by Node.mu
	told  []toldPeer    // peers that have ended and whose numbers were told, those first that ended first; guarded by Node.mu
	rest  time.Duration // how long a number that was told is not given again; 0: numberRest
}

// toldPeer is a peer that has ended and whose number applications may have.
type toldPeer struct {
	Index         uint32
	Local, Remote netip.Addr

	since time.Time // when the peer had ended
}

const (
	// numberRest is how long a number that was told rests at least: what the end of its peer
	// has left under way is over then.
	numberRest = time.Minute
	// numberTries is how many such numbers are looked at for a new peer.
	numberTries = 16
)

// numberLocked is the number of a new peer.
func (n *Node) numberLocked() uint32 {
	x := &n.index
	if i := len(x.free) - 1; i >= 0 {
		number := x.free[i]
		x.free = x.free[:i]
		return number
	}
	if x.next >= ipc.MaxPeers {
		if number, ok := n.againLocked(); ok {
			return number
		}
	}
	x.next++
	return x.next - 1
}

// againLocked takes a number that was told and that no session knows any more.
func (n *Node) againLocked() (number uint32, ok bool) {
	x, svc := &n.index, n.service.Load()
	for range min(len(x.told), numberTries) {
		t := x.told[0]
		if n.now().Sub(t.since) < cmp.Or(x.rest, numberRest) {
			return 0, false
		}
		x.told = x.told[1:]
		if svc == nil {
			return t.Index, true
		}
		if !svc.knows(t.Index) {
			svc.table.ClearPeer(int(t.Index))
			return t.Index, true
		}
		x.told = append(x.told, t)
	}
	return 0, false
}

// slotSet is a set of slots of the table.
type slotSet [ipc.MaxPeers / 64]atomic.Uint64

func (h *slotSet) add(slot uint32) {
	if slot >= ipc.MaxPeers {
		return
	}
	w, bit := &h[slot/64], uint64(1)<<(slot%64)
	if w.Load()&bit == 0 {
		w.Or(bit)
	}
}

func (h *slotSet) has(slot uint32) bool {
	return slot < ipc.MaxPeers && h[slot/64].Load()>>(slot%64)&1 != 0
}

// legacy is the set for another process, and inherit takes it over: a set that is not there
// has everything.
func (h *slotSet) legacy() []uint64 {
	out := make([]uint64, len(h))
	for i := range h {
		out[i] = h[i].Load()
	}
	return out
}

func (h *slotSet) inherit(set []uint64) {
	for i := range h {
		if i < len(set) {
			h[i].Store(set[i])
		} else {
			h[i].Store(^uint64(0))
		}
	}
}

// knows tells whether some session was told of a number.
func (s *Service) knows(number uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.sessions {
		if x.heard.has(number) {
			return true
		}
	}
	return false
}

// peerPage is a piece of the index.
type peerPage [256]atomic.Pointer[peer]

// place is where the peer with a number is, nil beyond the end of the index.
func (x *peerIndex) place(i uint32) *atomic.Pointer[peer] {
	if pages := x.pages.Load(); pages != nil && i>>8 < uint32(len(*pages)) {
		return &(*pages)[i>>8][i&255]
	}
	return nil
}

// indexLocked numbers a peer, and shows it to applications.
func (n *Node) indexLocked(p *peer) {
	x := &n.index
	p.index = n.numberLocked()
	for x.place(p.index) == nil {
		var pages []*peerPage
		if old := x.pages.Load(); old != nil {
			pages = *old
		}
		pages = append(pages[:len(pages):len(pages)], new(peerPage))
		x.pages.Store(&pages)
	}
	x.place(p.index).Store(p)
	if svc := n.service.Load(); svc != nil {
		svc.show(p)
	}
}

// skipTo has the next peer get a number, which must not have been given before.
func (n *Node) skipTo(i uint32) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if i < n.index.next || i > 1<<24 {
		return false
	}
	n.index.next = i
	return true
}

// inheritTold takes over the numbers of peers that have ended.
func (n *Node) inheritTold(list []toldPeer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range list {
		list[i].since = n.now()
	}
	n.index.told = list
	for _, x := range list {
		n.index.next = max(n.index.next, x.Index+1)
	}
}

// unindexLocked takes a peer that has ended out of the index.
func (n *Node) unindexLocked(p *peer) {
	x := &n.index
	x.place(p.index).Store(nil)
	svc := n.service.Load()
	switch {
	case !p.told.Load():
		if svc != nil {
			svc.hide(p)
		}
		x.free = append(x.free, p.index)
	case svc != nil && p.index < ipc.MaxPeers:
		x.told = append(x.told, toldPeer{p.index, p.local.addr, p.remote, n.now()})
	}
}

// peerAt is the peer with a number, nil if there is none.
func (n *Node) peerAt(i uint32) *peer {
	if at := n.index.place(i); at != nil {
		return at.Load()
	}
	return nil
}
