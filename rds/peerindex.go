package rds

import (
	"net/netip"
	"sync/atomic"

	"github.com/rds-go/rds/internal/ipc"
)

// peerIndex finds peers by number. It grows under Node.mu; who looks a peer up takes no lock.
//
// A number is given again when its peer has ended and nobody was told of it: no message of
// the peer went to a socket's queue, and so to no application's ring, and no application has
// looked the peer up. A number that was told stays what it was, for entries that applications
// have not read yet.
type peerIndex struct {
	pages atomic.Pointer[[]*peerPage]
	next  uint32     // lowest number that was never given; guarded by Node.mu
	free  []uint32   // numbers to be given again; guarded by Node.mu
	told  []toldPeer // peers that have ended and whose numbers were told; guarded by Node.mu
}

// toldPeer is a peer that has ended and whose number applications may have.
type toldPeer struct {
	Index         uint32
	Local, Remote netip.Addr
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
	if i := len(x.free) - 1; i >= 0 {
		p.index, x.free = x.free[i], x.free[:i]
	} else {
		p.index = x.next
		x.next++
	}
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
		x.told = append(x.told, toldPeer{p.index, p.local.addr, p.remote})
	}
}

// peerAt is the peer with a number, nil if there is none.
func (n *Node) peerAt(i uint32) *peer {
	if at := n.index.place(i); at != nil {
		return at.Load()
	}
	return nil
}
