//go:build !live

package ipc

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// arenaModel is a plain twin: it knows every page's block.
type arenaModel struct {
	t     testing.TB
	a     *Arena
	owner []int       // by page: the offset of its block, or -1
	size  map[int]int // sizes of allocated blocks by offset
	offs  []int       // offsets of allocated blocks, in any order
	free  int
}

func newArenaModel(t testing.TB, chunks int) *arenaModel {
	m := &arenaModel{t: t, a: NewArena(chunks * ChunkSize), size: map[int]int{}, free: chunks * ChunkSize}
	m.owner = make([]int, chunks*leaves)
	for i := range m.owner {
		m.owner[i] = -1
	}
	return m
}

// fits tells whether a block of size bytes is free, aligned to its size, as a
// buddy system gives it.
func (m *arenaModel) fits(size int) bool {
	n := size / MinBlock
	for at := 0; at < len(m.owner); at += n {
		if !slices.ContainsFunc(m.owner[at:at+n], func(o int) bool { return o >= 0 }) {
			return true
		}
	}
	return false
}

func (m *arenaModel) alloc(n int) {
	m.t.Helper()
	want := MinBlock
	for want < n {
		want *= 2
	}
	off, size, ok := m.a.Alloc(n)
	if fits := want <= ChunkSize && m.fits(want); ok != fits {
		m.t.Fatalf("alloc %d: %v, but a free block of %d: %v", n, ok, want, fits)
	}
	if !ok {
		return
	}
	if size != want || off%size != 0 || off < 0 || off+size > m.a.Size() {
		m.t.Fatalf("alloc %d: %d bytes at %#x, want %d", n, size, off, want)
	}
	for p := off / MinBlock; p < (off+size)/MinBlock; p++ {
		if m.owner[p] >= 0 {
			m.t.Fatalf("alloc %d: %#x to %#x overlaps the block at %#x", n, off, off+size, m.owner[p])
		}
		m.owner[p] = off
	}
	m.size[off] = size
	m.offs = append(m.offs, off)
	m.free -= size
	m.check()
}

func (m *arenaModel) release(i int) {
	m.t.Helper()
	off := m.offs[i]
	last := len(m.offs) - 1
	m.offs[i] = m.offs[last]
	m.offs = m.offs[:last]
	for p := off / MinBlock; p < (off+m.size[off])/MinBlock; p++ {
		m.owner[p] = -1
	}
	m.free += m.size[off]
	delete(m.size, off)
	m.a.Release(off)
	m.check()
	first := off / ChunkSize * leaves
	if empty := !slices.ContainsFunc(m.owner[first:first+leaves], func(o int) bool { return o >= 0 }); m.a.Empty(off) != empty {
		m.t.Fatalf("the chunk around %#x is empty: %v, want %v", off, !empty, empty)
	}
}

func (m *arenaModel) check() {
	m.t.Helper()
	if m.a.Free() != m.free {
		m.t.Fatalf("%d free, want %d", m.a.Free(), m.free)
	}
}

// finish frees everything and wants it back in one piece.
func (m *arenaModel) finish() {
	m.t.Helper()
	for len(m.offs) > 0 {
		m.release(len(m.offs) / 2)
	}
	for range m.a.Size() / ChunkSize {
		m.alloc(ChunkSize)
	}
	if m.a.Free() != 0 {
		m.t.Fatalf("%d free in a full arena", m.a.Free())
	}
	m.alloc(1)
}

func TestArenaAgreesWithItsModel(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 20 {
		m := newArenaModel(t, 1+rng.IntN(3))
		full := rng.IntN(100) // how full it tends to be
		for range 2000 {
			switch {
			case len(m.offs) > 0 && rng.IntN(100) >= full:
				m.release(rng.IntN(len(m.offs)))
			default:
				m.alloc(1 + rng.IntN(MinBlock<<rng.IntN(orders)))
			}
			if rng.IntN(500) == 0 {
				full = rng.IntN(100)
			}
		}
		m.finish()
	}
}

func FuzzArena(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 128, 129, 4, 5, 130, 8, 0, 0, 0, 131})
	f.Add([]byte{8, 8, 8, 128, 7, 7, 128, 128, 0, 129})
	f.Fuzz(func(t *testing.T, ops []byte) {
		m := newArenaModel(t, 2)
		for _, op := range ops[:min(len(ops), 4096)] {
			switch n := int(op & 127); {
			case op < 128:
				m.alloc(MinBlock<<(n%(orders+1)) - n/(orders+1)) // the last order is too large
			case len(m.offs) > 0:
				m.release(n % len(m.offs))
			}
		}
		m.finish()
	})
}

func TestBlocksAreAsSmallAsTheyCanBe(t *testing.T) {
	t.Parallel()
	a := NewArena(2 * ChunkSize)
	for _, c := range []struct{ n, size int }{
		{0, 4096}, {1, 4096}, {4095, 4096}, {4096, 4096}, {4097, 8192}, {8192, 8192}, {8193, 16384},
		{70000, 131072}, {524288, 524288}, {524289, 1048576}, {1048577, 0}, {math.MaxInt, 0},
	} {
		off, size, ok := a.Alloc(c.n)
		if size != c.size || ok != (c.size > 0) {
			t.Errorf("alloc %d: %d, %v, want %d", c.n, size, ok, c.size)
		}
		if ok {
			a.Release(off)
		}
	}
}

// Pages once touched have memory: a few messages at a time must not walk over
// the whole arena.
func TestLowChunksAreUsedFirst(t *testing.T) {
	t.Parallel()
	a := NewArena(64 * ChunkSize)
	var offs []int
	for range 4 {
		off, _, _ := a.Alloc(ChunkSize)
		offs = append(offs, off)
	}
	for _, off := range offs {
		a.Release(off)
	}
	for i := range 10_000 {
		off, size, ok := a.Alloc(MinBlock << (i % orders))
		if !ok || off+size > ChunkSize {
			t.Fatalf("block %d is at %#x", i, off)
		}
		a.Release(off)
	}
	for i, c := range a.chunks {
		if (c != nil) != (i < 4) {
			t.Errorf("chunk %d is made: %v", i, c != nil)
		}
	}
}

func TestReleaseOfWhatIsNotAllocatedPanics(t *testing.T) {
	t.Parallel()
	fill := func() (a *Arena, small, large int) {
		a = NewArena(3 * ChunkSize)
		small, _, _ = a.Alloc(1)
		large, _, _ = a.Alloc(64 << 10)
		return a, small, large
	}
	a, small, large := fill()
	for _, c := range []struct {
		name string
		off  int
	}{
		{"twice", -2},
		{"the inside of a block", large + MinBlock},
		{"the middle of a block", large + 32<<10},
		{"the inside of a page", small + 1},
		{"the buddy", small + MinBlock},
		{"a free block", large + 64<<10},
		{"a chunk never used", ChunkSize},
		{"the end", 3 * ChunkSize},
		{"far behind the end", math.MaxInt},
		{"before the start", -MinBlock},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", c.name)
				}
			}()
			if c.off == -2 {
				a, small, _ := fill()
				a.Release(small)
				a.Release(small)
				return
			}
			a.Release(c.off)
		}()
	}
	a.Release(small)
	a.Release(large)
	if a.Free() != a.Size() {
		t.Errorf("%d free of %d: a panic left traces", a.Free(), a.Size())
	}
	for _, n := range []int{0, -ChunkSize, ChunkSize - 1, ChunkSize + MinBlock} {
		if !panics(func() { NewArena(n) }) {
			t.Errorf("an arena of %d bytes", n)
		}
	}
}

func TestArenaDoesNotAllocate(t *testing.T) {
	a := NewArena(ChunkSize)
	off, _, _ := a.Alloc(1) // makes the chunk
	if n := testing.AllocsPerRun(1000, func() {
		other, _, _ := a.Alloc(10_000)
		a.Release(off)
		off = other
	}); n != 0 {
		t.Errorf("%v allocations for a block", n)
	}
}
