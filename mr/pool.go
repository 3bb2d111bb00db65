package mr

import (
	"time"

	"github.com/rds-go/rds/internal/invariants"
	"github.com/rds-go/rds/internal/lockorder"
)

// class says which limits a region counts against.
type class uint8

const (
	small class = iota
	large
	registered
	classes
)

// pool holds the bases and mappings of one class. A base is clean (in the
// queue), mapped, dropped (with its mapping, until the next grace period) or
// resting.
//
//	         map              drop               collect              reclaim
//	clean ────────▶ mapped ──────────▶ dropped ────────▶ invalidating ────────▶ clean
//	  ▲                                                                  │ all versions used
//	  └───────────────────────────── resting ◀───────────────────────────┘
type pool struct {
	class  class
	size   int // longest region, 0: any
	config PoolConfig
	rest   time.Duration
	table  *table

	mu lockorder.Mutex[pool]
	// Under mu. Bases are reused oldest first, so that a key stays dead as long
	// as possible; mappings newest first, because they are in the cache.
	clean   queue
	resting [2]queue // bases that began to rest until turned, and later
	turned  time.Time
	rested  time.Time // when the last base began to rest
	serial  uint64    // mapping.serial of the newest mapping
	bases   int       // number of bases that do not rest
	free    *mapping  // free mappings, never more than there are items
	dirty   list      // dropped, not yet taken by an invalidation
	live    int
	used    int    // regions that are live, or whose grace period is not over
	pinned  int64  // bytes of the used regions
	full    uint64 // times a limit was reached
}

// stride is how many mappings are worked on before others may have the lock.
const stride = 256

// share is what one owner has of one pool; under the pool's lock.
type share struct {
	owner *Owner
	pool  *pool
	used  int
	bytes int64
	live  mapping // ring of live mappings, this one not among them

	within *share // the share of OwnerConfig.Within; nil: none
}

func (s *share) init(o *Owner, p *pool) {
	s.owner, s.pool = o, p
	s.live.next, s.live.prev = &s.live, &s.live
}

// hold counts a region of n bytes, or one less of -n bytes, here and in all that the share
// is within.
func (s *share) hold(regions int, n int64) {
	for ; s != nil; s = s.within {
		s.used += regions
		s.bytes += n
		s.owner.pinned.Add(n)
	}
}

// fits says whether the owner may have n more bytes. Unless it has a limit of
// its own, it may hold as much as it leaves free: then a hog leaves half of
// the pool, and there is always something for one more.
func (s *share) fits(n int64) bool {
	p := s.pool
	if p.used >= p.config.Items || n > p.config.Pinned-p.pinned {
		return false
	}
	if limit := s.owner.config.Items; limit > 0 {
		return s.used < limit
	}
	return s.used < p.config.Items-p.used && s.bytes+n <= p.config.Pinned-p.pinned
}

func (p *pool) mappingLocked() *mapping {
	m := p.free
	if m == nil {
		return new(mapping)
	}
	p.free = m.next
	return m
}

// add maps memory under a clean base.
func (p *pool) add(s *share, mem []byte, opt *Options) (Key, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.owner.closed.Load() {
		return 0, ErrClosed
	}
	if err := p.admitLocked(s, int64(len(mem))); err != nil {
		return 0, err
	}
	index, at := p.baseLocked()
	if at == nil {
		p.full++
		return 0, ErrExhausted
	}
	if !opt.Domain.hold() {
		p.pushLocked(&p.clean, index, at)
		return 0, ErrDomain
	}
	return p.publishLocked(s, index, at, mem, opt), nil
}

// admitLocked checks the limits of the pool, of the owner and of those it is within.
func (p *pool) admitLocked(s *share, n int64) error {
	for ; s != nil; s = s.within {
		if !s.fits(n) {
			p.full++
			return ErrExhausted
		}
		if limit := s.owner.config.Pinned; limit > 0 && s.owner.pinned.Load() > limit-n {
			s.owner.dev.counters.refused.Add(1)
			return ErrPinned
		}
	}
	return nil
}

// publishLocked gives the base its next version, with which it names mem.
func (p *pool) publishLocked(s *share, index uint32, at *slot, mem []byte, opt *Options) Key {
	m := p.mappingLocked()
	m.fill(mem, opt)
	p.serial++
	m.serial = p.serial
	version := at.version() + 1
	m.index, m.key = index, p.table.cipher.key(index, version)
	m.share = s
	m.next, m.prev = s.live.next, &s.live
	m.next.prev, m.prev.next = m, m
	n := int64(len(mem))
	p.live++
	p.used++
	p.pinned += n
	s.hold(1, n)
	at.note.Store(makeNote(version, at.uses()+1, p.class))
	at.live.Store(m)
	return m.key
}

// dropLocked makes the key of a mapping dead, and says whether what is dropped has reached
// a watermark.
func (p *pool) dropLocked(at *slot, m *mapping) (flush bool) {
	at.live.Store(nil)
	m.prev.next, m.next.prev = m.next, m.prev
	m.prev = nil
	m.domain.drop()
	p.live--
	before := p.dirty.bytes
	p.dirty.push(m)
	return p.dirty.n == p.config.FlushItems ||
		before < p.config.FlushPinned && p.dirty.bytes >= p.config.FlushPinned
}

// reclaim returns what mappings count for, their grace period being over.
func (p *pool) reclaim(l *list, now time.Time) {
	m := l.head
	for m != nil {
		p.mu.Lock()
		for range stride {
			p.reclaimLocked(m, now)
			if m = m.next; m == nil {
				break
			}
		}
		p.mu.Unlock()
	}
}

func (p *pool) reclaimLocked(m *mapping, now time.Time) {
	n := int64(len(m.mem))
	p.used--
	p.pinned -= n
	m.share.hold(-1, -n)
	if k := m.known.size(); k > 0 {
		m.share.owner.dev.acquaintances.shrink(m.share.owner, k)
		m.known.reset()
	}
	if invariants.Enabled && (p.used < p.live || p.pinned < 0 || m.share.used < 0 || m.share.bytes < 0 || m.scribbled) {
		panic("mr: region reclaimed twice")
	}
	index := m.index
	at := p.table.slot(index)
	if at.uses() < maxUses {
		p.pushLocked(&p.clean, index, at)
		return
	}
	at.note.Store(makeNote(at.version(), 0, p.class))
	p.pushLocked(&p.resting[1], index, at)
	p.rested = now
	p.bases--
}

// recycle keeps mappings for reuse that nobody knows any more.
func (p *pool) recycle(l *list, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wakeLocked(now)
	if l.n == 0 {
		return
	}
	l.tail.next = p.free
	p.free = l.head
}
