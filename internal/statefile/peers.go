package statefile

import (
	"encoding/binary"
	"net/netip"
	"runtime/debug"
	"sync/atomic"
	"unsafe"
)

// Paths is the number of sequence numbers of a peer.
const Paths = 8

// Peer is what was received from one generation of one remote address at one local address. What
// is stored with its methods is in the file, too, if the Peer is of a file.
type Peer struct {
	Local, Remote netip.Addr
	Generation    uint32               // the peer's generation; 0: not stated
	Next          [Paths]atomic.Uint64 // one more than the last sequence number taken on each path; 0: none was
	Taken         atomic.Uint64        // number of messages taken for sockets
	Used          atomic.Int64         // time of the last use, in Unix nanoseconds

	file  *File // nil: the Peer is of no file
	slot  int
	entry *peerEntry
}

// peerEntry is a Peer in the file.
type peerEntry struct {
	used, generation uint32
	next             [Paths]uint64
	local, remote    [nameSize]byte
	taken            uint64
	lastUse          int64
}

const (
	offLocal  = unsafe.Offsetof(peerEntry{}.local)
	offRemote = unsafe.Offsetof(peerEntry{}.remote)
)

// Take notes what a path has received, n messages for sockets among it.
func (p *Peer) Take(path int, next, n uint64) {
	p.Next[path].Store(next)
	p.Taken.Add(n)
	if p.entry == nil {
		return
	}
	defer p.file.mend(debug.SetPanicOnFault(true))
	atomic.StoreUint64(&p.entry.next[path], next)
	if n > 0 {
		atomic.AddUint64(&p.entry.taken, n)
	}
}

// Use notes the time of a use.
func (p *Peer) Use(at int64) {
	p.Used.Store(at)
	if p.entry == nil {
		return
	}
	defer p.file.mend(debug.SetPanicOnFault(true))
	atomic.StoreInt64(&p.entry.lastUse, at)
}

// Received tells whether something was taken.
func (p *Peer) Received() bool {
	for i := range p.Next {
		if p.Next[i].Load() > 0 {
			return true
		}
	}
	return false
}

// Peers are those that the file had when it was opened.
func (s *File) Peers() []*Peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peers
}

// Add puts a new Peer into the file, if there is room. Whoever opens the file after a crash
// finds all that p says, or nothing of it.
func (s *File) Add(p *Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	local, remote := p.Local.String(), p.Remote.String()
	if s.lost.Load() || s.passive || len(local) >= nameSize || len(remote) >= nameSize {
		return
	}
	slot := s.peerSlots.take(func(slot int) bool { return s.roomLocked(offPeers+slot*peerSize, peerSize) })
	if slot < 0 {
		return
	}
	at := offPeers + slot*peerSize
	s.putNameLocked(at+int(offLocal), local)
	s.putNameLocked(at+int(offRemote), remote)
	p.file, p.slot, p.entry = s, slot, (*peerEntry)(unsafe.Pointer(&s.mem[at]))
	p.storeEntry()
}

func (p *Peer) storeEntry() {
	defer p.file.mend(debug.SetPanicOnFault(true))
	e := p.entry
	e.generation = p.Generation
	for i := range p.Next {
		e.next[i] = p.Next[i].Load()
	}
	e.taken, e.lastUse = p.Taken.Load(), p.Used.Load()
	atomic.StoreUint32(&e.used, 1)
}

// Remove takes a Peer, which nobody may use any more, out of the file.
func (s *File) Remove(p *Peer) {
	if p.file == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clearPeerLocked(p.entry)
	s.peerSlots.give(p.slot)
}

func (s *File) clearPeerLocked(e *peerEntry) {
	if s.passive {
		return
	}
	defer s.mend(debug.SetPanicOnFault(true))
	atomic.StoreUint32(&e.used, 0)
}

// readPeersLocked reads the table of peers, most entries at most.
func (s *File) readPeersLocked(most int) error {
	const many = piece / peerSize
	for first := 0; first < most; first += many {
		n := min(many, most-first)
		b, err := s.readAt(offPeers+first*peerSize, n*peerSize)
		if err != nil {
			return err
		}
		for i := range n {
			e := b[i*peerSize:][:peerSize]
			if e[offLocal] == 0 && binary.NativeEndian.Uint32(e) != 1 {
				return nil // never used
			}
			if err := s.readPeerLocked(first+i, e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *File) readPeerLocked(slot int, b []byte) error {
	at := offPeers + slot*peerSize
	if err := s.provideLocked(at, peerSize); err != nil {
		return err
	}
	s.peerSlots.used = slot + 1
	e := (*peerEntry)(unsafe.Pointer(unsafe.SliceData(b)))
	local, ok := name(e.local[:])
	remote, ok2 := name(e.remote[:])
	p := &Peer{Local: local, Remote: remote, Generation: e.generation, file: s, slot: slot, entry: (*peerEntry)(unsafe.Pointer(&s.mem[at]))}
	for i, next := range e.next {
		p.Next[i].Store(next)
	}
	p.Taken.Store(e.taken)
	p.Used.Store(e.lastUse)
	if e.used == 1 && ok && ok2 && p.Received() {
		s.peers = append(s.peers, p)
		return nil
	}
	s.clearPeerLocked(p.entry)
	s.peerSlots.give(slot)
	return nil
}
