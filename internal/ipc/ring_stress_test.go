//go:build !live

package ipc

import (
	"flag"
	"math/rand/v2"
	"runtime"
	"testing"
)

// How much TestRingUnderLoad moves. A long run:
//
//	go test ./internal/ipc -run TestRingUnderLoad -v -timeout 60m -ipc.entries 100000000
//	go test -race ./internal/ipc -run TestRingUnderLoad -v -timeout 60m -ipc.entries 100000000
var stressEntries = flag.Uint64("ipc.entries", 2_000_000, "entries that TestRingUnderLoad moves")

// TestRingUnderLoad has two goroutines move entries and payloads as fast as
// they can, in batches of changing size, through rings so small that both ends
// are met all the time. The ring is in memory that the race detector watches:
// it reports any slot or payload that an index does not order.
func TestRingUnderLoad(t *testing.T) {
	for _, size := range []int{1, 8, 1024} {
		n := *stressEntries
		if testing.Short() {
			n /= 20
		}
		if size < 1024 {
			n /= 20 // mostly switches between the two goroutines
		}
		moveEntries(t, size, n)
	}
}

func moveEntries(t *testing.T, size int, n uint64) {
	t.Helper()
	seed := rand.Uint64()
	r := newHeapRing(size)
	data := make([][2]uint64, size) // the payload of each slot
	stop := make(chan struct{})
	done := make(chan error, 1)
	go func() { // the producer
		p := r.producer()
		rng := rand.New(rand.NewPCG(seed, 1))
		for seq := uint64(0); seq < n; {
			batch := uint64(rng.IntN(size)) + 1
			free, err := p.Free(int(batch))
			if err != nil {
				done <- err
				return
			}
			if free == 0 {
				select {
				case <-stop:
					done <- nil
					return
				default:
					runtime.Gosched()
					continue
				}
			}
			for range min(batch, uint64(free), n-seq) {
				h := mix(seed + seq)
				data[seq%uint64(size)] = [2]uint64{h, ^seq}
				p.Put(MakeEntry(OpSend, uint8(h), uint16(h>>8), uint32(h>>16), uint32(h>>24), uint32(h>>32), uint32(seq%uint64(size)), uint32(h>>8), seq))
				seq++
			}
			p.Publish()
		}
		done <- nil
	}()
	defer func() {
		close(stop)
		if err := <-done; err != nil {
			t.Errorf("producer: %v", err)
		}
	}()
	c := r.consumer()
	rng := rand.New(rand.NewPCG(seed, 2))
	for seq := uint64(0); seq < n; {
		ready, err := c.Ready()
		if err != nil {
			t.Errorf("consumer: %v", err)
			return
		}
		if ready == 0 {
			runtime.Gosched()
			continue
		}
		ready = rng.IntN(ready) + 1
		for i := range ready {
			e := c.Peek(i)
			h := mix(seed + seq)
			want := MakeEntry(OpSend, uint8(h), uint16(h>>8), uint32(h>>16), uint32(h>>24), uint32(h>>32), uint32(seq%uint64(size)), uint32(h>>8), seq)
			if e != want {
				t.Errorf("seed %d, ring of %d: entry %d is %#x, want %#x", seed, size, seq, e, want)
				return
			}
			if got := data[e.Offset()]; got != [2]uint64{h, ^seq} {
				t.Errorf("seed %d, ring of %d: payload %d is %#x", seed, size, seq, got)
				return
			}
			seq++
		}
		c.Next(ready)
		c.Publish()
	}
}
