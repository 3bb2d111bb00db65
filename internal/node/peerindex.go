package node

import (
	"cmp"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/internal/ipc"
)

// peerIndex finds peers by number. It grows under Node.Mu; who looks a peer up takes no lock.
//
// A number is given again when its peer has ended and nothing names the peer by the number
// any more. If nobody was told of the number, that is at once: no message of the peer went to
// a socket's queue, and no application has looked the peer up. A number that was told rests
// first, and is given again when Node.Sweep finds nothing that names it.
type peerIndex struct {
	pages  atomic.Pointer[[]*peerPage]
	next   uint32        // lowest number that was never given; guarded by Node.Mu
	free   []uint32      // numbers to be given again; guarded by Node.Mu
	beyond []uint32      // numbers to be given again that are no slots of the table; guarded by Node.Mu
	Told   []ToldPeer    // peers that have ended and whose numbers were told; guarded by Node.Mu
	Rest   time.Duration // how long a number that was told is not given again; 0: numberRest

	sweeping bool // a sweep runs, or is scheduled; guarded by Node.Mu
}

// ToldPeer is a peer that has ended and whose number applications may have.
type ToldPeer struct {
	Index         uint32
	Local, Remote netip.Addr

	Since time.Time // when the peer had ended, or a session that knew it
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
func (x *peerIndex) resting() time.Duration { return cmp.Or(x.Rest, numberRest) }

// numberLocked is the number of a new peer.
func (n *Node) numberLocked() uint32 {
	x := &n.Index
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
type peerPage [256]atomic.Pointer[Peer]

// place is where the peer with a number is, nil beyond the end of the index.
func (x *peerIndex) place(i uint32) *atomic.Pointer[Peer] {
	if pages := x.pages.Load(); pages != nil && i>>8 < uint32(len(*pages)) {
		return &(*pages)[i>>8][i&255]
	}
	return nil
}

// indexLocked numbers a peer, and shows it to applications.
func (n *Node) indexLocked(p *Peer) {
	x := &n.Index
	p.Index = n.numberLocked()
	for x.place(p.Index) == nil {
		var pages []*peerPage
		if old := x.pages.Load(); old != nil {
			pages = *old
		}
		pages = append(pages[:len(pages):len(pages)], new(peerPage))
		x.pages.Store(&pages)
	}
	x.place(p.Index).Store(p)
	n.Server().Show(p)
}

// SkipTo has the next peer get a number, which must not have been given before.
func (n *Node) SkipTo(i uint32) bool {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	if i < n.Index.next || i > 1<<24 {
		return false
	}
	n.Index.next = i
	return true
}

// InheritTold takes over the numbers of peers that have ended. All that are neither theirs
// nor those of connections are free: nobody was told, or nothing names them any more.
func (n *Node) InheritTold(list []ToldPeer) {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	x := &n.Index
	x.Told = list
	taken := make(map[uint32]bool)
	for i := range list {
		list[i].Since = time.Now()
		taken[list[i].Index] = true
		x.next = max(x.next, list[i].Index+1)
	}
	for i := range x.next {
		if !taken[i] && n.PeerAt(i) == nil {
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
func (n *Node) unindexLocked(p *Peer) {
	x := &n.Index
	x.place(p.Index).Store(nil)
	if p.Told.Load() && p.Index < ipc.MaxPeers {
		x.Told = append(x.Told, ToldPeer{p.Index, p.Local.Addr, p.Remote, time.Now()})
		n.sweepSoonLocked()
		return
	}
	n.Server().Hide(p)
	x.freeLocked(p.Index)
}

// RemoteOf is the remote address of a peer that may have ended, nil if the number was not told.
func (n *Node) RemoteOf(i uint32) *netip.Addr {
	if p := n.PeerAt(i); p != nil {
		return &p.Remote
	}
	n.Mu.RLock()
	defer n.Mu.RUnlock()
	for k := range n.Index.Told {
		if t := n.Index.Told[k]; t.Index == i {
			return &t.Remote
		}
	}
	return nil
}

// PeerAt is the peer with a number, nil if there is none.
func (n *Node) PeerAt(i uint32) *Peer {
	if at := n.Index.place(i); at != nil {
		return at.Load()
	}
	return nil
}
