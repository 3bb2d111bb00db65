//go:build !live

package ipc

import (
	"fmt"
	"runtime"
	"testing"
)

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
