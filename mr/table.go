package mr

import (
	"sync/atomic"

	"github.com/rds-go/rds/internal/lockorder"
)

// slot is a base: the place of one index in the table. A base never changes
// its class, and is never taken out of the table.
type slot struct {
	// live is the mapping that the base's newest key names, nil when that key
	// is dead. Written under the lock of the base's pool; what it points to is
	// recycled only after a grace period, so a reader section may follow it.
	live atomic.Pointer[mapping]
	// note holds, from the low bits: the version of the newest key (8), the
	// mappings since the last quarantine (8), the class (2), whether the base
	// ever had a mapping (1). Written under the lock of the pool.
	note atomic.Uint32
	// next is the base behind this one in its pool's queue, under its lock.
	next uint32
}

const (
	noteVersion = 0
	noteUses    = 8
	noteClass   = 16
	noteKnown   = 1 << 18

	// maxUses is how many mappings a base has before it rests: one less than
	// there are versions.
	maxUses = 255
)

func makeNote(version uint8, uses int, c class) uint32 {
	return uint32(version)<<noteVersion | uint32(uses)<<noteUses | uint32(c)<<noteClass | noteKnown
}

func (s *slot) version() uint8 { return uint8(s.note.Load() >> noteVersion) }
func (s *slot) uses() int      { return int(uint8(s.note.Load() >> noteUses)) }
func (s *slot) class() class   { return class(s.note.Load() >> noteClass & 3) }

const (
	chunkBits = 12
	chunkLen  = 1 << chunkBits
)

// table finds a base by its index in two steps. Chunks appear as bases are
// needed and stay.
type table struct {
	cipher keyCipher
	chunks [1 << (indexBits - chunkBits)]atomic.Pointer[[chunkLen]slot]

	mu lockorder.Mutex[table]
	// Under mu: the index that comes next, how many bases there are, and the most
	// there may be.
	next, bases, limit uint32
}

func (t *table) init(limit int, secret uint64) {
	t.limit = uint32(limit)
	t.cipher.init(secret)
}

// slot is the base with an index, nil if that part of the table does not exist.
func (t *table) slot(index uint32) *slot {
	if c := t.chunks[index>>chunkBits].Load(); c != nil {
		return &c[index%chunkLen]
	}
	return nil
}

// live is the mapping that the newest key of a base names, nil if there is none.
func (t *table) live(index uint32) *mapping {
	if s := t.slot(index); s != nil {
		return s.live.Load()
	}
	return nil
}

// known is the base that a key names, nil if there is none. Its key may be dead.
func (t *table) known(k Key) *slot {
	index, _ := t.cipher.base(k)
	if s := t.slot(index); s != nil && s.note.Load()&noteKnown != 0 {
		return s
	}
	return nil
}

// grow adds a base of the class. It leaves out the base that the key 0 would name, and
// index 0, which stands for no base in the queues of bases.
func (t *table) grow(c class) (uint32, *slot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bases == t.limit {
		return 0, nil
	}
	t.next++
	none, _ := t.cipher.base(0)
	s := t.place(t.next)
	for t.next == none || s.note.Load()&noteKnown != 0 { // known: claimed for a key of another process
		t.next++
		s = t.place(t.next)
	}
	t.bases++
	s.note.Store(makeNote(0, 0, c) &^ noteKnown) // the base is not known until its first mapping
	return t.next, s
}

// place is the slot with an index, whose chunk it makes if needed. The caller holds mu.
func (t *table) place(index uint32) *slot {
	at := &t.chunks[index>>chunkBits]
	chunk := at.Load()
	if chunk == nil {
		chunk = new([chunkLen]slot)
		at.Store(chunk)
	}
	return &chunk[index%chunkLen]
}

// absent says why a key is dead that names no live mapping.
func (t *table) absent(k Key) Fault {
	s := t.known(k)
	if s == nil {
		return NoRegion
	}
	if _, version := t.cipher.base(k); s.version() != version {
		return StaleKey
	}
	return Revoked
}
