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
// A number is given again when its peer has ended and nothing names the peer by the number
// any more. If nobody was told of the number, that is at once: no message of the peer went to
// a socket's queue, and no application has looked the peer up. A number that was told rests
// first, and is given again when Node.sweep finds nothing that names it.
type peerIndex struct {
	pages  atomic.Pointer[[]*peerPage]
	next   uint32        // lowest number that was never given; guarded by Node.mu
	free   []uint32      // numbers to be given again; guarded by Node.mu
	beyond []uint32      // numbers to be given again that are no slots of the table; guarded by Node.mu
	told   []toldPeer    // peers that have ended and whose numbers were told; guarded by Node.mu
	rest   time.Duration // how long a number that was told is not given again; 0: numberRest

	sweeping bool // a sweep runs, or is scheduled; guarded by Node.mu
}

// toldPeer is a peer that has ended and whose number applications may have.
type toldPeer struct {
	Index         uint32
	Local, Remote netip.Addr

	since time.Time // when the peer had ended, or a session that knew it
}

const (
	// numberRest is how long a number that was told rests at least: what the end of its peer,
	// or of a session, has left under way is over then.
	numberRest = 10 * time.Second
	// sweeps is how many sweeps there are in that time while few numbers are left.
	sweeps = 10
	// fewNumbers is the count of free numbers at which sweeps begin.
	fewNumbers = ipc.MaxPeers / 4
)

// resting is how long a number that was told is not given again.
func (x *peerIndex) resting() time.Duration { return cmp.Or(x.rest, numberRest) }

// numberLocked is the number of a new peer.
func (n *Node) numberLocked() uint32 {
	x := &n.index
	n.sweepSoonLocked()
	for _, free := range [...]*[]uint32{&x.free, &x.beyond} {
		if i := len(*free) - 1; i >= 0 {
			number := (*free)[i]
			*free = (*free)[:i]
			return number
		}
		if x.next < ipc.MaxPeers {
			break
		}
	}
	x.next++
	return x.next - 1
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
	n.server().show(p)
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

// inheritTold takes over the numbers of peers that have ended. All that are neither theirs
// nor those of connections are free: nobody was told, or nothing names them any more.
func (n *Node) inheritTold(list []toldPeer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	x := &n.index
	x.told = list
	taken := make(map[uint32]bool)
	for i := range list {
		list[i].since = n.now()
		taken[list[i].Index] = true
		x.next = max(x.next, list[i].Index+1)
	}
	for i := range x.next {
		if !taken[i] && n.peerAt(i) == nil {
			x.freeLocked(i)
		}
	}
}

// freeLocked has a number given again.
func (x *peerIndex) freeLocked(i uint32) {
	if i < ipc.MaxPeers {
		x.free = append(x.free, i)
	} else {
		x.beyond = append(x.beyond, i)
	}
}

// unindexLocked takes a peer that has ended out of the index.
func (n *Node) unindexLocked(p *peer) {
	x := &n.index
	x.place(p.index).Store(nil)
	if p.told.Load() && p.index < ipc.MaxPeers {
		x.told = append(x.told, toldPeer{p.index, p.local.addr, p.remote, n.now()})
		n.sweepSoonLocked()
		return
	}
	n.server().hide(p)
	x.freeLocked(p.index)
}

// remoteOf is the remote address of a peer that may have ended, nil if the number was not told.
func (n *Node) remoteOf(i uint32) *netip.Addr {
	if p := n.peerAt(i); p != nil {
		return &p.remote
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	for k := range n.index.told {
		if t := n.index.told[k]; t.Index == i {
			return &t.Remote
		}
	}
	return nil
}

// peerAt is the peer with a number, nil if there is none.
func (n *Node) peerAt(i uint32) *peer {
	if at := n.index.place(i); at != nil {
		return at.Load()
	}
	return nil
}
