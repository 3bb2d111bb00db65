//go:build !live

package ipc

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"testing"
)

func wantFree(t *testing.T, p *Producer, want, free int) {
	t.Helper()
	if n, err := p.Free(want); n != free || err != nil {
		t.Fatalf("Free(%d) = %d, %v, want %d", want, n, err, free)
	}
}

func wantReady(t *testing.T, c *Consumer, n int) {
	t.Helper()
	if got, err := c.Ready(); got != n || err != nil {
		t.Fatalf("Ready = %d, %v, want %d", got, err, n)
	}
}

func TestEntriesAreSeenWhenPublishedAndSlotsWhenConsumed(t *testing.T) {
	t.Parallel()
	r := newHeapRing(4)
	p, c := r.producer(), r.consumer()
	wantFree(t, &p, 1, 4)
	wantReady(t, &c, 0)
	for i := range 4 {
		p.Put(Entry{3: uint64(i)})
	}
	wantReady(t, &c, 0) // not published
	wantFree(t, &p, 1, 0)
	p.Publish()
	wantReady(t, &c, 4)
	for i := range 4 {
		if e := c.Peek(i); e.Token() != uint64(i) {
			t.Errorf("Peek(%d) is entry %d", i, e.Token())
		}
	}
	c.Next(3)
	wantReady(t, &c, 1)
	wantFree(t, &p, 1, 0) // not given back
	c.Publish()
	wantFree(t, &p, 1, 3)
	if p.Tail() != 4 || p.Head() != 3 || c.Head() != 3 {
		t.Errorf("tail %d, head %d, consumed %d", p.Tail(), p.Head(), c.Head())
	}
	p.Put(Entry{3: 4})
	p.Publish()
	wantReady(t, &c, 1) // Ready does not look again while it knows of one
	if n, err := c.Refresh(); n != 2 || err != nil {
		t.Errorf("Refresh = %d, %v", n, err)
	}
	wantReady(t, &c, 2)
}

func TestFreeLooksAtTheOtherSideOnlyWhenItMust(t *testing.T) {
	t.Parallel()
	r := newHeapRing(4)
	p, c := r.producer(), r.consumer()
	for range 3 {
		p.Put(Entry{})
	}
	p.Publish()
	wantReady(t, &c, 3)
	c.Next(3)
	c.Publish()
	wantFree(t, &p, 1, 1) // one was known to be free
	wantFree(t, &p, 2, 4)
}

// The indices are 64 bits long and start anywhere: nothing may depend on their
// not wrapping, however long that takes.
func TestIndicesWrap(t *testing.T) {
	t.Parallel()
	for _, start := range []uint64{1, math.MaxUint32 - 3, math.MaxUint64 - 3} {
		r := newHeapRing(4)
		r.tail.Store(start)
		r.head.Store(start)
		p, c := r.producer(), r.consumer()
		p.tail, p.head, c.tail, c.head = start, start, start, start
		for i := range uint64(40) {
			wantFree(t, &p, 4, 4)
			n := int(i%4) + 1
			for k := range n {
				p.Put(Entry{3: i + uint64(k)})
			}
			p.Publish()
			wantReady(t, &c, n)
			for k := range n {
				if e := c.Peek(k); e.Token() != i+uint64(k) {
					t.Fatalf("start %#x, entry %d: %d", start, i+uint64(k), e.Token())
				}
			}
			c.Next(n)
			c.Publish()
		}
	}
}

func TestProducerRefusesImpossibleHeads(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		head uint64
		free int // -1: corrupt
	}{
		{"nothing new", 2, 1},
		{"one consumed", 3, 2},
		{"all consumed", 5, 4},
		{"ran back", 1, -1},
		{"ran back to the start", 0, -1},
		{"past what was produced", 6, -1},
		{"far past", 5 + 4, -1},
		{"half way round", 1 << 63, -1},
		{"negative", math.MaxUint64, -1},
	} {
		r := newHeapRing(4)
		p := r.producer()
		p.tail, p.head = 5, 2
		r.head.Store(c.head)
		n, err := p.Free(4)
		if c.free >= 0 && (n != c.free || err != nil) || c.free < 0 && !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: head %#x: %d, %v, want %d", c.name, c.head, n, err, c.free)
		}
		if c.free < 0 && p.Head() != 2 {
			t.Errorf("%s: the impossible head was kept: %d", c.name, p.Head())
		}
	}
}

func TestConsumerRefusesImpossibleTails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		tail  uint64
		ready int // -1: corrupt
	}{
		{"nothing new", 4, 2},
		{"one more", 5, 3},
		{"full", 6, 4},
		{"ran back, though not below our head", 3, -1},
		{"ran back to our head", 2, -1},
		{"ran back below our head", 1, -1},
		{"one too many", 7, -1},
		{"half way round", 1 << 63, -1},
		{"negative", math.MaxUint64, -1},
	} {
		r := newHeapRing(4)
		cons := r.consumer()
		cons.head, cons.tail = 2, 4
		r.tail.Store(c.tail)
		n, err := cons.Refresh()
		if c.ready >= 0 && (n != c.ready || err != nil) || c.ready < 0 && !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: tail %#x: %d, %v, want %d", c.name, c.tail, n, err, c.ready)
		}
		if c.ready < 0 && cons.tail != 4 {
			t.Errorf("%s: the impossible tail was kept: %d", c.name, cons.tail)
		}
	}
}

func TestEntriesAreEncodedAsDocumented(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		e    Entry
		want Entry
	}{
		{"every field", MakeEntry(OpSend, 0x22, 0x3344, 0x55667788, 0x99aabbcc, 0xddeeff00, 0x10203040, 0x50607080, 0x0123456789abcdef),
			Entry{0x55667788_3344_22_01, 0xddeeff00_99aabbcc, 0x50607080_10203040, 0x0123456789abcdef}},
		{"a send", MakeEntry(OpSend, FlagNotify, 4000, 0x00010002, 7, 64, 0x1000, 0, 99),
			Entry{0x00010002_0fa0_01_01, 0x00000040_00000007, 0x00000000_00001000, 99}},
		{"a return", MakeEntry(OpReturn, 0, 0, 0, 0, 0, 0x100000, 0, 3), Entry{3, 0, 0x100000, 3}},
		{"an empty message", MakeEntry(OpMessage, 1, 65535, 1, 2, 0, 0, NoBlock, 1<<63),
			Entry{0x00000001_ffff_01_40, 2, 0xffffffff_00000000, 1 << 63}},
		{"all ones", MakeEntry(255, 255, 1<<16-1, 1<<32-1, 1<<32-1, 1<<32-1, 1<<32-1, 1<<32-1, 1<<64-1),
			Entry{1<<64 - 1, 1<<64 - 1, 1<<64 - 1, 1<<64 - 1}},
	} {
		if c.e != c.want {
			t.Errorf("%s: %#x, want %#x", c.name, c.e, c.want)
		}
		e := &c.want
		if again := MakeEntry(e.Op(), e.Flags(), e.Port(), e.Socket(), e.Peer(), e.Length(), e.Offset(), e.Block(), e.Token()); again != c.want {
			t.Errorf("%s: read back as %#x, want %#x", c.name, again, c.want)
		}
	}
}

func TestRingDoesNotAllocate(t *testing.T) {
	r := newHeapRing(64)
	p, c := r.producer(), r.consumer()
	f := Flag{new(atomic.Uint32)}
	var sum uint64
	if n := testing.AllocsPerRun(1000, func() {
		if free, err := p.Free(1); free == 0 || err != nil {
			t.Fatal("no room", err)
		}
		p.Put(MakeEntry(OpSend, 0, 1, 2, 3, 4, 5, 6, 7))
		p.Publish()
		f.Set()
		f.Take()
		if n, err := c.Ready(); n != 1 || err != nil {
			t.Fatal("nothing there", err)
		}
		e := c.Peek(0)
		sum += e.Token()
		c.Next(1)
		c.Publish()
	}); n != 0 {
		t.Errorf("%v allocations for an entry", n)
	}
	if sum == 0 {
		t.Error("nothing was read")
	}
}

// BenchmarkRing moves entries between two goroutines; batch is after how many
// each side publishes.
func BenchmarkRing(b *testing.B) {
	for _, batch := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			r := newHeapRing(4096)
			stop := make(chan struct{})
			done := make(chan uint64)
			go func() {
				c := r.consumer()
				var sum uint64
				for {
					n, _ := c.Ready()
					if n == 0 {
						select {
						case <-stop:
							done <- sum
							return
						default:
							runtime.Gosched()
							continue
						}
					}
					n = min(n, batch)
					for i := range n {
						e := c.Peek(i)
						sum += e.Token()
					}
					c.Next(n)
					c.Publish()
				}
			}()
			p := r.producer()
			unpublished := 0
			b.ReportAllocs()
			b.SetBytes(entrySize)
			for b.Loop() {
				for {
					if n, _ := p.Free(1); n > 0 {
						break
					}
					p.Publish()
					runtime.Gosched()
				}
				p.Put(MakeEntry(OpSend, 0, 1, 2, 3, 4, 5, 6, 7))
				if unpublished++; unpublished == batch {
					p.Publish()
					unpublished = 0
				}
			}
			p.Publish()
			close(stop)
			<-done
		})
	}
}

// BenchmarkArena allocates and frees blocks of a filled arena.
func BenchmarkArena(b *testing.B) {
	for _, n := range []int{4 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dKiB", n>>10), func(b *testing.B) {
			a := NewArena(32 << 20)
			var offs []int
			for {
				off, _, ok := a.Alloc(n)
				if !ok {
					break
				}
				offs = append(offs, off)
			}
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				a.Release(offs[i])
				off, _, ok := a.Alloc(n)
				if !ok {
					b.Fatal("full")
				}
				offs[i] = off
				if i += 7; i >= len(offs) {
					i %= len(offs)
				}
			}
		})
	}
}
