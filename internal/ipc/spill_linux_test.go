//go:build !live

package ipc

import (
	"math/rand/v2"
	"testing"
)

// Whenever the daemon ends the application finds the completions that it has not had, in
// order, whatever of them it has had on the ring by then.
func TestSpilledIsFound(t *testing.T) {
	t.Parallel()
	l := smallLayout
	l.Receive = 4 * ChunkSize
	seg, f, err := NewSegment(l)
	must(t, err)
	defer f.Close()
	defer seg.Close()
	most := 0
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 1))
		seg.word(offSpill).Store(0)
		p, arena := seg.Spill(), NewArena(l.Receive)
		put, taken := uint64(0), uint64(0)
		check := func(had uint64) {
			t.Helper()
			next := had
			seg.Spilled(had, func(e *Entry) {
				if e.Token() != next {
					t.Fatalf("seed %d: entry %d instead of %d", seed, e.Token(), next)
				}
				next++
			})
			if next != put || p.Len() != int(put-taken) {
				t.Fatalf("seed %d: entries %d to %d, and %d in all; want %d to %d", seed, had, next, p.Len(), taken, put)
			}
		}
		free := func() {
			for off, ok := p.Freed(); ok; off, ok = p.Freed() {
				for i := range SpillBlock / 8 { // it is used for something else
					atomic64(seg.ReceiveArea()[int(off)+8*i:]).Store(^uint64(0))
				}
				arena.Release(int(off))
				check(taken)
			}
		}
		for range 20 {
			for range rng.IntN(2 * spillEntries) {
				if p.Full() {
					off, _, ok := arena.Alloc(SpillBlock)
					if !ok {
						break
					}
					p.Grow(uint32(off))
					check(taken)
				}
				p.Put(MakeEntry(OpMessage, 0, 0, 0, 0, 0, 0, 0, put))
				put++
				most = max(most, p.Len())
			}
			check(taken)
			n := rng.IntN(p.Len() + 1)
			if rng.IntN(4) == 0 {
				n = p.Len()
			}
			for range n {
				if e := p.Take(); e.Token() != taken {
					t.Fatalf("seed %d: entry %d instead of %d", seed, e.Token(), taken)
				}
				taken++
			}
			check(taken) // they are on the ring
			free()
		}
		if p.Len() == 0 && arena.Free() != arena.Size() {
			t.Errorf("seed %d: blocks are left", seed)
		}
	}
	if most < 3*spillEntries {
		t.Errorf("%d entries at most", most)
	}
}

// A list that somebody has broken is read to an end, and nothing beyond the arena.
func TestBrokenSpill(t *testing.T) {
	t.Parallel()
	seg, f, err := NewSegment(smallLayout)
	must(t, err)
	defer f.Close()
	defer seg.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		for _, w := range []int{offSpill, seg.receiveOff() + spillNext, seg.receiveOff() + spillFirst, seg.receiveOff() + spillCount} {
			seg.word(w).Store([]uint64{0, 1, 2, MinBlock + 1, uint64(smallLayout.Receive) + 1, rng.Uint64()}[rng.IntN(6)])
		}
		n := 0
		seg.Spilled(rng.Uint64N(2), func(*Entry) { n++ })
		if n > smallLayout.Receive/SpillBlock*spillEntries {
			t.Fatalf("%d entries", n)
		}
	}
}
