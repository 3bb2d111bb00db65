package mr

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// benchDevice is a device with a domain and an owner that may use all of it.
func benchDevice(tb testing.TB, c Config) (*Device, *Domain, *Owner) {
	c.Seed = 1
	d, err := New(c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			tb.Error(err)
		}
	})
	return d, d.NewDomain(), d.NewOwner(OwnerConfig{Items: 1 << 23})
}

// BenchmarkCheck enters a section, checks a key and leaves, on one processor
// and on all: the time is that of one goroutine, so equal numbers mean that readers do
// not slow each other down. (testing.PB does: its counters share lines.)
func BenchmarkCheck(b *testing.B) {
	for _, c := range []struct {
		readers int
		guarded bool
	}{{1, false}, {1, true}, {runtime.GOMAXPROCS(0), false}} {
		readers := c.readers
		b.Run(fmt.Sprintf("readers=%d,guarded=%v", readers, c.guarded), func(b *testing.B) {
			config := Config{}
			if c.guarded {
				config = guarded
			}
			d, dom, o := benchDevice(b, config)
			var keys [64]Key
			for i := range keys {
				keys[i], _ = o.Map(make([]byte, SmallSize), Options{Domain: dom, Rights: RemoteRead})
				d.Give(keys[i], d.Peer(peerA))
			}
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for i := range readers {
				wg.Go(func() {
					r := d.NewReader(fmt.Sprint(i), nil)
					defer r.Close()
					req := Request{Domain: dom, From: peerA, Rights: RemoteRead, Addr: 4096, Len: 1024}
					for i := range b.N {
						req.Key = keys[i%len(keys)]
						r.Enter()
						if _, f := r.Check(&req); f != None {
							b.Error(f)
						}
						r.Leave()
					}
				})
			}
			wg.Wait()
		})
	}
}

// BenchmarkMapFree maps 8 KiB and frees it lazily; the watermark invalidates.
// The time is that of one goroutine, as in BenchmarkCheck; they share the pool.
func BenchmarkMapFree(b *testing.B) {
	for _, owners := range []int{1, runtime.GOMAXPROCS(0)} {
		b.Run(fmt.Sprintf("owners=%d", owners), func(b *testing.B) {
			d, dom, _ := benchDevice(b, Config{})
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for range owners {
				wg.Go(func() {
					o := d.NewOwner(OwnerConfig{})
					mem := make([]byte, SmallSize)
					opt := Options{Domain: dom, Rights: LocalWrite | RemoteWrite}
					for range b.N {
						k, err := o.Map(mem, opt)
						if err == nil {
							err = o.Free(k)
						}
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// copiers run readers that check, copy n bytes and leave until stop. Those that
// yield give up the processor between two sections, as an event loop does when it looks
// for events; the others are as greedy as the scheduler lets them be. It returns when all
// of them are at it.
func copiers(tb testing.TB, d *Device, dom *Domain, o *Owner, readers, n int, yield bool) (stop func()) {
	k, err := o.Register(make([]byte, n), Options{Domain: dom, Rights: RemoteRead})
	if err != nil {
		tb.Fatal(err)
	}
	var wg, ready sync.WaitGroup
	var over atomic.Bool
	ready.Add(readers)
	for i := range readers {
		wg.Go(func() {
			r := d.NewReader(fmt.Sprint(i), nil)
			defer r.Close()
			dst := make([]byte, n)
			req := Request{Key: k, Domain: dom, Rights: RemoteRead, Len: uint64(n)}
			for first := true; !over.Load(); first = false {
				r.Enter()
				src, f := r.Check(&req)
				if f != None {
					tb.Error(f)
				}
				copy(dst, src)
				r.Leave()
				if first {
					ready.Done()
				}
				if yield {
					runtime.Gosched()
				}
			}
		})
	}
	ready.Wait()
	return func() { over.Store(true); wg.Wait() }
}

// BenchmarkInvalidate1000 frees 1,000 regions, in turn with one barrier for
// all and with one for each, while two event loops copy chunks. It reports the
// medians in microseconds and their ratio.
func BenchmarkInvalidate1000(b *testing.B) {
	for _, chunk := range []int{0, 16 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("chunk=%d", chunk), func(b *testing.B) {
			d, dom, o := benchDevice(b, Config{})
			if chunk > 0 {
				defer copiers(b, d, dom, o, 2, chunk, true)()
			}
			mem := make([]byte, SmallSize)
			var keys [1000]Key
			var took [2][]time.Duration
			b.ReportAllocs()
			for b.Loop() {
				for i, free := range []func(Key) error{
					o.Free,
					func(k Key) error { return o.FreeInvalidate(context.Background(), k) },
				} {
					for j := range keys {
						keys[j], _ = o.Map(mem, Options{Domain: dom, Rights: RemoteRead})
					}
					start := time.Now()
					for _, k := range keys {
						if err := free(k); err != nil {
							b.Fatal(err)
						}
					}
					if err := o.Barrier(context.Background()); err != nil {
						b.Fatal(err)
					}
					took[i] = append(took[i], time.Since(start))
				}
			}
			batch, single := quantile(took[0], 500), quantile(took[1], 500)
			b.ReportMetric(batch, "batch-µs")
			b.ReportMetric(single, "singles-µs")
			b.ReportMetric(single/batch, "ratio")
		})
	}
}

// quantile is the value in microseconds that so many of 1,000 do not exceed.
func quantile(took []time.Duration, permille int) float64 {
	slices.Sort(took)
	return float64(took[(len(took)-1)*permille/1000].Nanoseconds()) / 1e3
}

// BenchmarkBarrier is the time of FreeInvalidate while 64 goroutines enter and
// leave sections with copies in them.
func BenchmarkBarrier(b *testing.B) {
	for _, c := range []struct {
		chunk int
		yield bool
	}{{1 << 10, true}, {64 << 10, true}, {1 << 10, false}, {64 << 10, false}} {
		b.Run(fmt.Sprintf("chunk=%d/yield=%v", c.chunk, c.yield), func(b *testing.B) {
			d, dom, o := benchDevice(b, Config{})
			defer copiers(b, d, dom, o, 64, c.chunk, c.yield)()
			// Beside greedy goroutines a turn comes seldom, after up to 10 ms for
			// each of them; it is used for more than one barrier.
			turn := 1
			if !c.yield {
				turn = 20
			}
			mem := make([]byte, SmallSize)
			var took []time.Duration
			b.ReportAllocs()
			for b.Loop() {
				k, err := o.Map(mem, Options{Domain: dom, Rights: RemoteRead})
				if err != nil {
					b.Fatal(err)
				}
				start := time.Now()
				if err := o.FreeInvalidate(context.Background(), k); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(start))
				if len(took)%turn == 0 {
					runtime.Gosched()
				}
			}
			b.ReportMetric(quantile(took, 500), "p50-µs")
			b.ReportMetric(quantile(took, 990), "p99-µs")
			b.ReportMetric(quantile(took, 1000), "max-µs")
		})
	}
}
