//go:build !live

package ipc

import (
	"encoding/binary"
	"errors"
	"testing"
)

// Records go from one end to the other in order, around the end of the memory, and each end sees
// how much room or how many there are.
func TestQueueCarriesRecords(t *testing.T) {
	const n = 4
	mem := make([]byte, QueueSize(8, n))
	p, ok := NewQueue(mem, 8, n, true)
	c, ok2 := NewQueue(mem, 8, n, false)
	if !ok || !ok2 {
		t.Fatal("no queue")
	}
	next, seen := uint64(0), uint64(0)
	for round := range 10 {
		room, err := p.Ready(n)
		if err != nil || room != n-int(next-seen) {
			t.Fatalf("room for %d, %v", room, err)
		}
		for i := range room {
			binary.NativeEndian.PutUint64(p.Record(i), next)
			next++
		}
		if got, err := c.Ready(n); err != nil || got != int(next-seen)-room {
			t.Fatalf("%d can be taken before they are put, %v", got, err)
		}
		p.Advance(room)
		got, err := c.Ready(n)
		if err != nil || got != int(next-seen) {
			t.Fatalf("%d can be taken, %v", got, err)
		}
		take := 1 + round%got
		for i := range take {
			if v := binary.NativeEndian.Uint64(c.Record(i)); v != seen {
				t.Fatalf("record %d, want %d", v, seen)
			}
			seen++
		}
		c.Advance(take)
	}
}

// An index that nobody honest has is found out, from either end.
func TestQueueFindsImpossibleIndices(t *testing.T) {
	const n = 8
	for _, produces := range []bool{true, false} {
		for _, other := range []uint64{n + 1, 1 << 63, ^uint64(0)} {
			mem := make([]byte, QueueSize(16, n))
			q, ok := NewQueue(mem, 16, n, produces)
			if !ok {
				t.Fatal("no queue")
			}
			q.sub.Store(other)
			if _, err := q.Ready(n + 1); !errors.Is(err, ErrCorrupt) {
				t.Errorf("produces %t, index %#x: %v", produces, other, err)
			}
		}
	}
	mem := make([]byte, QueueSize(16, n))
	for _, bad := range []struct {
		mem []byte
		n   int
	}{{mem, n - 1}, {mem, 0}, {mem, 2 * n}, {mem[:len(mem)-1], n}, {append(make([]byte, 0, len(mem)+8), mem...)[1:], n}, {nil, MaxQueue * 2}} {
		if _, ok := NewQueue(bad.mem, 16, bad.n, true); ok {
			t.Errorf("a queue of %d records in %d bytes", bad.n, len(bad.mem))
		}
	}
}
