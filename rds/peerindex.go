package rds

import "sync/atomic"

// peerIndex finds peers by number. It grows under Node.mu; who looks a peer up takes no lock.
type peerIndex struct {
	pages atomic.Pointer[[]*peerPage]
	next  uint32 // number of the next peer; guarded by Node.mu
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
	p.index = x.next
	x.next++
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

// unindexLocked takes a peer that has ended out of the index.
func (n *Node) unindexLocked(p *peer) { n.index.place(p.index).Store(nil) }

// peerAt is the peer with a number, nil if there is none.
func (n *Node) peerAt(i uint32) *peer {
	if at := n.index.place(i); at != nil {
		return at.Load()
	}
	return nil
}
