package buf

import (
	"encoding/binary"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/rds-go/rds/internal/invariants"
)

func mustPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if got := recover(); got != want {
			t.Errorf("panic %v, want %q", got, want)
		}
	}()
	f()
}

func TestClasses(t *testing.T) {
	t.Parallel()
	var p Pool
	for _, c := range []struct{ n, capacity int }{
		{0, 512}, {1, 512}, {511, 512}, {512, 512},
		{513, 1024}, {1024, 1024}, {1025, 2048},
		{64 << 10, 64 << 10}, {64<<10 + 1, 128 << 10},
		{1 << 20, 1 << 20}, {1<<20 + 48, 2 << 20}, {MaxPooled, MaxPooled},
	} {
		b := p.Get(c.n)
		if len(b.B) != c.n || cap(b.B) != c.capacity {
			t.Errorf("Get(%d): length %d, capacity %d, want %d", c.n, len(b.B), cap(b.B), c.capacity)
		}
		b.Release()
	}
}

func TestEachClassHasItsOwnList(t *testing.T) {
	t.Parallel()
	p := untrimmed(0)
	small, large := p.Get(512), p.Get(513)
	small.Release()
	large.Release()
	if b := p.Get(1024); b != large {
		t.Error("1024 bytes did not come from the class of 513")
	}
	if b := p.Get(1); b != small {
		t.Error("1 byte did not come from the class of 512")
	}
}

// The bytes used last are the ones still in the cache.
func TestLastInFirstOut(t *testing.T) {
	t.Parallel()
	p := untrimmed(0)
	bufs := []*Buf{p.Get(600), p.Get(700), p.Get(800)}
	for _, b := range bufs {
		b.Release()
	}
	for i := len(bufs) - 1; i >= 0; i-- {
		if b := p.Get(1000); b != bufs[i] {
			t.Errorf("buffer %d is not the one released last", i)
		}
	}
	if b := p.Get(1000); b == bufs[0] {
		t.Error("a buffer was handed out twice")
	}
}

func TestKeepBoundsEachClass(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		keep, size   int
		out, left    int
		wantDiscards uint64
	}{
		{"exactly three", 3 * 4096, 4096, 5, 3, 2},
		{"not quite three", 3*4096 - 1, 4096, 5, 2, 3},
		{"less than one", 4095, 4096, 2, 0, 2},
		{"nothing", -1, 1, 2, 0, 2},
		{"the default", 0, MaxPooled, 6, defaultKeep / MaxPooled, 6 - defaultKeep/MaxPooled},
	} {
		p := untrimmed(c.keep)
		var bufs []*Buf
		for range c.out {
			bufs = append(bufs, p.Get(c.size))
		}
		for _, b := range bufs {
			b.Release()
		}
		if got := p.free(c.size); got != c.left {
			t.Errorf("%s: kept %d, want %d", c.name, got, c.left)
		}
		if got := p.Discarded(); got != c.wantDiscards {
			t.Errorf("%s: discarded %d, want %d", c.name, got, c.wantDiscards)
		}
		// The other classes have a bound of their own.
		if c.keep >= 512 {
			p.Get(1).Release()
			if p.free(1) != 1 {
				t.Errorf("%s: a full class left no room in another", c.name)
			}
		}
	}
}

func TestLargeBuffersAreNotPooled(t *testing.T) {
	t.Parallel()
	var p Pool
	b := p.Get(MaxPooled + 1)
	if len(b.B) != MaxPooled+1 {
		t.Fatalf("length %d", len(b.B))
	}
	b.Retain(1)
	b.ReleaseN(2)
	for c := range p.list {
		if p.kept(c) != 0 {
			t.Errorf("class %d keeps something", c)
		}
	}
	mustPanic(t, "buf: released more often than retained", b.Release)
}

func TestRetainAndRelease(t *testing.T) {
	t.Parallel()
	p := untrimmed(0)
	b := p.Get(10)
	b.Retain(3)
	b.Retain(0)
	b.ReleaseN(0)
	b.Release()
	b.ReleaseN(2)
	if p.kept(0) != 0 || b.B == nil {
		t.Fatal("released while it had a holder")
	}
	b.Release()
	if p.kept(0) != 1 || b.B != nil {
		t.Fatal("not released with its last holder")
	}
}

func TestMisusePanics(t *testing.T) {
	t.Parallel()
	const (
		released = "buf: released more often than retained"
		retained = "buf: retain of a released buffer"
		retainN  = "buf: retain count out of range"
		releaseN = "buf: release count out of range"
	)
	freed := func(p *Pool) *Buf {
		b := p.Get(10)
		b.Release()
		return b
	}
	wide := uint64(1 << 32)
	wraps := int(wide) // 0 where int has 32 bits
	for _, c := range []struct {
		name, want string
		f          func(p *Pool)
	}{
		{"double release", released, func(p *Pool) { freed(p).Release() }},
		{"release of nothing after the last", released, func(p *Pool) { freed(p).ReleaseN(0) }},
		{"more than retained at once", released, func(p *Pool) { b := p.Get(10); b.Retain(1); b.ReleaseN(3) }},
		{"retain after release", retained, func(p *Pool) { freed(p).Retain(1) }},
		{"retain many after release", retained, func(p *Pool) { freed(p).Retain(100) }},
		{"retain nothing after release", retained, func(p *Pool) { freed(p).Retain(0) }},
		{"retain beyond the counter", retained, func(p *Pool) { p.Get(10).Retain(math.MaxInt32) }},
		{"negative retain", retainN, func(p *Pool) { p.Get(10).Retain(-1) }},
		{"negative release", releaseN, func(p *Pool) { p.Get(10).ReleaseN(-1) }},
		{"retain count wraps", retainN, func(p *Pool) { p.Get(10).Retain(wraps) }},
		{"release count wraps", releaseN, func(p *Pool) { p.Get(10).ReleaseN(wraps + 1) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if strings.HasSuffix(c.name, "wraps") && wraps == 0 {
				t.Skip("needs an int of 64 bits")
			}
			var p Pool
			mustPanic(t, c.want, func() { c.f(&p) })
			// Misuse never puts a buffer into the list twice.
			if a, b := p.Get(10), p.Get(10); a == b {
				t.Error("one buffer has two owners")
			}
		})
	}
}

// A holder that had moved the start of B used to shrink the buffer for good:
// it went back with 508 bytes of capacity, and the next Get(512) that met it
// panicked.
func TestReslicedBufferReturnsWhole(t *testing.T) {
	t.Parallel()
	p := untrimmed(0)
	b := p.Get(512)
	b.B = b.B[4:]
	b.Release()
	again := p.Get(512)
	if again != b || len(again.B) != 512 || cap(again.B) != 512 {
		t.Errorf("length %d, capacity %d", len(again.B), cap(again.B))
	}
	again.B = append(again.B, make([]byte, 1000)...)
	again.Release()
	if p.Get(512) != b || cap(b.B) != 512 {
		t.Errorf("a foreign slice of %d bytes came into the pool", cap(b.B))
	}
}

func TestReleasedMemoryIsScribbledOver(t *testing.T) {
	t.Parallel()
	if !invariants.Enabled {
		t.Skip("needs -tags invariants or -race")
	}
	var p Pool
	for _, n := range []int{10, MaxPooled + 1} {
		b := p.Get(n)
		late := b.B[:min(cap(b.B), n+100)]
		clear(late)
		b.Retain(1)
		b.B = b.B[5:]
		b.Release()
		if late[0] != 0 {
			t.Errorf("%d bytes: scribbled over while held", n)
		}
		b.Release()
		for i, v := range late {
			if v != scribble {
				t.Fatalf("%d bytes: byte %d is %#02x after release", n, i, v)
			}
		}
	}
}

// Buffers go from goroutine to goroutine with several holders each; nobody
// may see another's bytes.
func TestConcurrentHolders(t *testing.T) {
	t.Parallel()
	const producers, readers, rounds = 4, 3, 300
	p := Pool{Keep: 64 << 10} // small, so that discarding is met too
	type item struct {
		b    *Buf
		mark uint64
	}
	var wg sync.WaitGroup
	var queues [readers]chan item
	for i := range queues {
		queues[i] = make(chan item, 8)
		wg.Go(func() {
			for it := range queues[i] {
				for o := 0; o+8 <= len(it.b.B); o += 8 {
					if got := binary.LittleEndian.Uint64(it.b.B[o:]); got != it.mark {
						t.Errorf("%#x in a buffer of %#x", got, it.mark)
						break
					}
				}
				it.b.Release()
			}
		})
	}
	var making sync.WaitGroup
	for w := range producers {
		making.Go(func() {
			for r := range rounds {
				mark := uint64(w)<<32 | uint64(r)
				b := p.Get(8 << (r % 10))
				for o := 0; o < len(b.B); o += 8 {
					binary.LittleEndian.PutUint64(b.B[o:], mark)
				}
				b.Retain(readers)
				for _, q := range queues {
					q <- item{b, mark}
				}
				b.Release()
			}
		})
	}
	making.Wait()
	for _, q := range queues {
		close(q)
	}
	wg.Wait()
	for c := range p.list {
		l, n := &p.list[c], 0
		l.mu.Lock()
		for b := l.head; b != nil; b = b.next {
			if len(b.mem) != 1<<(minShift+c) || b.refs.Load() != 0 {
				t.Errorf("class %d holds a buffer of %d bytes with %d holders", c, len(b.mem), b.refs.Load())
			}
			n++
		}
		if n != l.n || n<<(minShift+c) > p.Keep {
			t.Errorf("class %d: %d in the list, %d counted", c, n, l.n)
		}
		l.mu.Unlock()
	}
}

func TestSteadyStateDoesNotAllocate(t *testing.T) {
	var p Pool
	for _, n := range []int{0, 64, 1024, 64 << 10, 1 << 20} {
		if got := testing.AllocsPerRun(100, func() {
			b := p.Get(n)
			b.Retain(2)
			b.Release()
			b.ReleaseN(2)
		}); got != 0 {
			t.Errorf("%d bytes: %v allocations", n, got)
		}
	}
}
