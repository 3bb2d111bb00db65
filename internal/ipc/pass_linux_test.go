//go:build !live

package ipc

import (
	"math/rand/v2"
	"net/netip"
	"os"
	"sync"
	"testing"

	"github.com/rds-go/rds/internal/wire"
)

// Blocks that one arena has allocated are taken in another, which then allocates and frees
// around them as the first one would.
func TestArenaTakesBlocks(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	a, b := NewArena(8<<20), NewArena(8<<20)
	blocks := make(map[int]int)
	for range 500 {
		if off, size, ok := a.Alloc(1 + rnd.IntN(200<<10)); ok {
			blocks[off] = size
		}
		for off := range blocks {
			if rnd.IntN(3) == 0 {
				a.Release(off)
				delete(blocks, off)
			}
			break
		}
	}
	for off, size := range blocks {
		if !b.Take(off, size) {
			t.Fatalf("seed %d: %d bytes at %d are not free", seed, size, off)
		}
		if b.Take(off, size) || b.Take(off, MinBlock) {
			t.Fatalf("seed %d: %d bytes at %d are taken twice", seed, size, off)
		}
	}
	if a.Free() != b.Free() {
		t.Errorf("seed %d: %d bytes are free, want %d", seed, b.Free(), a.Free())
	}
	for _, bad := range [][2]int{{-MinBlock, MinBlock}, {1, MinBlock}, {0, 0}, {0, 5000}, {8 << 20, MinBlock}, {MinBlock, 2 * MinBlock}, {0, 2 * ChunkSize}} {
		if b.Take(bad[0], bad[1]) {
			t.Errorf("%d bytes at %d are taken", bad[1], bad[0])
		}
	}
	for off := range blocks {
		b.Release(off)
	}
	if b.Free() != b.Size() {
		t.Errorf("seed %d: %d bytes are lost", seed, b.Size()-b.Free())
	}
}

// A table takes the place of another one under its readers.
func TestTableIsReplaced(t *testing.T) {
	t.Parallel()
	first, f := newTable(t)
	here, there := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	must(t, first.SetPeer(3, here, there))
	r, err := OpenTable(f)
	must(t, err)
	defer r.Close()
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, remote, ok := r.Peer(3); !ok || remote != there {
					t.Errorf("%v, %v", remote, ok)
					return
				}
			}
		})
	}
	for i := range 20 {
		next, g, err := NewTable(uint32(100 + i))
		must(t, err)
		must(t, next.SetPeer(3, here, there))
		var m wire.CongestionMap
		m.Set(uint16(i))
		next.Succeed(uint64(1000*i), nil)
		next.SetMap(3, &m)
		must(t, r.Replace(g))
		_ = g.Close()
		if r.Generation() != uint32(100+i) || !r.Congested(3, uint16(i)) || r.Maps() != uint64(1000*i+1) {
			t.Fatalf("table %d: generation %d, %d maps", i, r.Generation(), r.Maps())
		}
		_ = next.Close()
	}
	close(stop)
	readers.Wait()
	null, err := os.Open(os.DevNull)
	must(t, err)
	defer null.Close()
	if r.Replace(null) == nil {
		t.Error("a file that is no table takes its place")
	}
	if r.Generation() != 119 {
		t.Error("the table is lost")
	}
}

// spillIsRestored checks what a segment that was adopted has of a spill with completions 1 to
// 4, in one block.
func spillIsRestored(t *testing.T, g *Segment, spill Spill) {
	t.Helper()
	left := g.Spill()
	if !left.Restore(spill.State()) || left.Len() != 4 {
		t.Fatalf("%d spilled", left.Len())
	}
	if e := left.Take(); e.Port() != 1 {
		t.Errorf("completion %d", e.Port())
	}
	for left.Len() > 0 {
		left.Take()
	}
	if _, ok := left.Freed(); !ok {
		t.Error("the block is kept")
	}
	empty := g.Spill() // the block that was emptied had not been full
	if !empty.Restore(left.State()) || empty.Len() != 0 || !empty.Full() {
		t.Fatalf("not restored from %+v", left.State())
	}
	empty.Grow(0)
	empty.Put(MakeEntry(OpMessage, 0, 7, 0, 0, 0, 0, 0, 0))
	if e := empty.Take(); e.Port() != 7 || empty.Len() != 0 {
		t.Errorf("completion %d, %d more", e.Port(), empty.Len())
	}
	for _, bad := range []SpillState{{Taken: 2, Put: 1}, {Put: 1}, {Blocks: []uint32{1 << 20}, Put: 1}, {Blocks: []uint32{5}, Put: 1}, {First: 1, Put: 1}} {
		p := g.Spill()
		if p.Restore(bad) {
			t.Errorf("restored from %+v", bad)
		}
	}
}

// Rings and spilled completions go on in a segment that another process has made, whatever
// the application has written to its first page.
func TestSegmentIsAdopted(t *testing.T) {
	t.Parallel()
	l := Layout{Submissions: 64, Completions: 64, Sockets: 4, Data: 64 << 10, Send: 1 << 20, Receive: 1 << 20, Memory: 1 << 20}
	s, f, err := NewSegment(l)
	must(t, err)
	defer s.Close()
	defer f.Close()
	app, cq := s.Submit(), s.Complete()
	for i := range 10 {
		app.Put(MakeEntry(OpSend, 0, uint16(i), 0, 0, 0, 0, 0, 0))
	}
	app.Publish()
	sq := s.Submitted()
	if n, err := sq.Ready(); n != 10 || err != nil {
		t.Fatal(n, err)
	}
	sq.Next(4)
	sq.Publish()
	if _, err := cq.Free(1); err != nil {
		t.Fatal(err)
	}
	cq.Put(MakeEntry(OpFreed, 0, 0, 0, 0, 0, 0, 0, 0))
	cq.Publish()
	spill := s.Spill()
	spill.Grow(0)
	for i := range 5 {
		spill.Put(MakeEntry(OpMessage, 0, uint16(i), 0, 0, 0, 0, 0, 0))
	}
	spill.Take()

	s.word(offLayout).Store(1 << 40) // the application's mischief
	g, err := AdoptSegment(l, f)
	must(t, err)
	defer g.Close()
	next := g.Submitted()
	next.Seek(sq.At())
	if n, err := next.Refresh(); n != 6 || err != nil {
		t.Fatalf("%d submissions, %v", n, err)
	}
	if e := next.Peek(0); e.Port() != 4 {
		t.Errorf("submission %d", e.Port())
	}
	done := g.Complete()
	done.Seek(cq.At())
	if n, err := done.Free(64); n != 63 || err != nil {
		t.Errorf("room for %d, %v", n, err)
	}
	spillIsRestored(t, g, spill)
	l.Send *= 2
	if _, err := AdoptSegment(l, f); err == nil {
		t.Error("adopted with another layout")
	}
}
