package mr

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"sync/atomic"
)

// Peer stands for the address of a peer: a number that is as good as unique, and
// that nobody can compute who does not know the device's secret. 0 is no peer.
type Peer uint64

// Peer returns the number of an address. It is the same in every device with the
// same Config.Seed.
func (d *Device) Peer(a netip.Addr) Peer {
	a = a.Unmap()
	var b [24]byte
	binary.LittleEndian.PutUint64(b[:], d.secret)
	ip := a.As16()
	copy(b[8:], ip[:])
	h := sha256.New()
	h.Write(b[:])
	h.Write([]byte(a.Zone()))
	return max(1, Peer(binary.LittleEndian.Uint64(h.Sum(nil))))
}

// Give notes that a peer is given a key: what it asks of that region is looked up
// from now on, whatever else it has asked for (Config.PeerLookUps). A key that is
// dead is ignored.
func (d *Device) Give(k Key, to Peer) {
	if d.guard.off() {
		return
	}
	at := d.table.known(k)
	if at == nil {
		return
	}
	p := d.pools[at.class()]
	p.mu.Lock()
	if m := at.live.Load(); m != nil && m.key == k {
		m.acquaintLocked(d, to)
	}
	p.mu.Unlock()
}

// acquaintances are the peers that have the key of one region: the first one, and the
// others in a hash table with open addressing, which is empty for most regions. They
// are written under the lock of the region's pool, and read in sections. They end with
// the mapping.
type acquaintances struct {
	first atomic.Uint64
	more  atomic.Pointer[peerTable]
}

type peerTable struct {
	n     int // entries in use, under the lock of the pool
	slots []atomic.Uint64
}

const firstTable = 8 // slots of the smallest table

func (a *acquaintances) has(p Peer) bool {
	if a.first.Load() == uint64(p) {
		return true
	}
	t := a.more.Load()
	return t != nil && t.at(p).Load() == uint64(p)
}

func (a *acquaintances) reset() {
	a.first.Store(0)
	a.more.Store(nil)
}

// size is the number of slots of the table.
func (a *acquaintances) size() int {
	if t := a.more.Load(); t != nil {
		return len(t.slots)
	}
	return 0
}

// at is the slot of a peer, or the free one where it would be.
func (t *peerTable) at(p Peer) *atomic.Uint64 {
	for i := uint64(p); ; i++ {
		s := &t.slots[i%uint64(len(t.slots))]
		if v := s.Load(); v == 0 || v == uint64(p) {
			return s
		}
	}
}

// squeeze puts a peer where it is looked for first, in another one's place if that is
// taken: whoever is found beyond that slot is found beyond it still. One slot stays free.
func (t *peerTable) squeeze(p Peer) bool {
	s := &t.slots[uint64(p)%uint64(len(t.slots))]
	if s.Load() == 0 {
		if t.n == len(t.slots)-1 {
			return false
		}
		t.n++
	}
	s.Store(uint64(p))
	return true
}

// acquaintLocked adds a peer. Where the table may not grow (Config.Acquaintances) the
// peer takes the place of another one, which has to pay for its next look-up.
func (m *mapping) acquaintLocked(d *Device, p Peer) {
	a := &m.known
	if a.has(p) || a.first.CompareAndSwap(0, uint64(p)) {
		return
	}
	t := a.more.Load()
	if t == nil || t.n >= len(t.slots)*3/4 {
		n := firstTable
		if t != nil {
			n = 2 * len(t.slots)
		}
		if !d.acquaintances.grow(m.share.owner, n-a.size()) {
			if t == nil || !t.squeeze(p) {
				a.first.Store(uint64(p))
			}
			d.counters.forgotten.Add(1)
			return
		}
		grown := &peerTable{slots: make([]atomic.Uint64, n)}
		if t != nil {
			for i := range t.slots {
				if v := t.slots[i].Load(); v != 0 {
					grown.at(Peer(v)).Store(v)
					grown.n++
				}
			}
		}
		t = grown
		a.more.Store(t)
	}
	t.at(p).Store(uint64(p))
	t.n++
}

// acquaintanceBudget bounds the tables of all regions.
type acquaintanceBudget struct {
	limit int64
	used  atomic.Int64
}

// grow gives an owner n more slots, unless it would have more than it leaves free.
func (b *acquaintanceBudget) grow(o *Owner, n int) bool {
	own, all := o.acquaintances.Add(int64(n)), b.used.Add(int64(n))
	if own > b.limit-all {
		b.shrink(o, n)
		return false
	}
	return true
}

func (b *acquaintanceBudget) shrink(o *Owner, n int) {
	o.acquaintances.Add(-int64(n))
	b.used.Add(-int64(n))
}
