package mr

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMRREQ20UnmappedPageIsNeverTouched takes the pages of a region away in
// the moment its invalidation returns: a later access would kill the process.
func TestMRREQ20UnmappedPageIsNeverTouched(t *testing.T) {
	g := parallelRig(t, Config{})
	const size = 16 << 10
	var key atomic.Uint32
	var over atomic.Bool
	var placed atomic.Uint64
	var wg sync.WaitGroup
	for i := range uint64(2) {
		r := g.reader("r")
		wg.Go(func() {
			for !over.Load() {
				r.Enter()
				b, f := r.Check(&Request{Key: Key(key.Load()), Domain: g.dom, From: peerA, Rights: RemoteWrite, Addr: i * size / 2, Len: size / 2})
				for j := 0; j < len(b); j += 64 {
					b[j]++
				}
				r.Leave()
				if f == None {
					placed.Add(1)
				}
			}
		})
	}
	for range 100 {
		mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		g.ok(err)
		k := g.mapped(g.own, mem, g.options(readWrite))
		key.Store(uint32(k))
		for n := placed.Load(); placed.Load() < n+3; {
			runtime.Gosched() // a few placements
		}
		g.ok(g.own.FreeInvalidate(t.Context(), k))
		g.ok(unix.Munmap(mem))
	}
	over.Store(true)
	wg.Wait()
}
