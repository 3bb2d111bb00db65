package mr

import (
	"math/bits"
	"net/netip"
	"sync/atomic"
	"time"
)

// Stats is a snapshot of a device.
type Stats struct {
	Small, Large, Registered PoolStats

	Owners        int    // owners that were not closed
	Stale         int64  // regions whose invalidation is held up by a stuck reader
	Invalidations uint64 // regions invalidated
	Batches       uint64 // grace periods that covered them
	LargestBatch  uint64 // regions in one batch
	StuckReaders  uint64 // invalidations that waited longer than Config.Stuck
	Refused       uint64 // requests over an owner's limit of pinned bytes

	// BatchSize counts batches by size and GraceTime by duration in
	// microseconds: element i those of at least 1<<(i-1) and less than 1<<i, the
	// last also what is beyond.
	BatchSize, GraceTime [24]uint64
	// GraceTotal is the duration of all grace periods together.
	GraceTotal time.Duration

	// Acquaintances is how many entries there are of peers that have keys beside the
	// first of each region, Forgotten how many were given up for others.
	Acquaintances int64
	Forgotten     uint64

	// BadKeys counts refused requests by reason.
	BadKeys [faults]uint64
	// Offenders are the peers they came from, the zero address standing for all
	// that Config.Peers leaves no room for.
	Offenders map[netip.Addr]uint64
}

// PoolStats is one class of regions.
type PoolStats struct {
	Live    int    // keys that work
	Dirty   int    // freed, not yet invalid
	Clean   int    // bases ready for reuse
	Resting int    // bases in quarantine
	Pinned  int64  // bytes of live and dirty regions
	Full    uint64 // requests that found a limit reached
}

type counters struct {
	stale, waited                                           atomic.Int64
	invalidations, batches, most, stuck, refused, forgotten atomic.Uint64
	size, grace                                             [24]atomic.Uint64
}

// invalidated counts a batch; only the leader does.
func (c *counters) invalidated(b *batch, took time.Duration) {
	n := uint64(b.n)
	c.invalidations.Add(n)
	c.batches.Add(1)
	if n > c.most.Load() {
		c.most.Store(n)
	}
	c.size[bucket(n)].Add(1)
	c.grace[bucket(uint64(took.Microseconds()))].Add(1)
	c.waited.Add(int64(took))
}

func bucket(n uint64) int { return min(bits.Len64(n), 23) }

// Stats takes a snapshot. Its parts are taken one after the other.
func (d *Device) Stats() Stats {
	c := &d.counters
	s := Stats{
		Small: d.pools[small].stats(), Large: d.pools[large].stats(), Registered: d.pools[registered].stats(),
		Stale: c.stale.Load(), Invalidations: c.invalidations.Load(), Batches: c.batches.Load(),
		LargestBatch: c.most.Load(), StuckReaders: c.stuck.Load(), Refused: c.refused.Load(),
		Acquaintances: d.acquaintances.used.Load(), Forgotten: c.forgotten.Load(),
		Offenders: d.offenders.snapshot(), GraceTotal: time.Duration(c.waited.Load()),
	}
	for i := range c.size {
		s.BatchSize[i], s.GraceTime[i] = c.size[i].Load(), c.grace[i].Load()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s.Owners = len(d.owners)
	s.BadKeys = d.gone
	for _, r := range *d.readers.Load() {
		for f := range r.counts {
			s.BadKeys[f] += r.counts[f].Load()
		}
	}
	return s
}

func (p *pool) stats() PoolStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return PoolStats{Live: p.live, Dirty: p.used - p.live, Clean: p.clean.n, Resting: p.resting[0].n + p.resting[1].n, Pinned: p.pinned, Full: p.full}
}
