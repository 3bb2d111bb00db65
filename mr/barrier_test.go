package mr

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestMRREQ7MapNeedsNoPeerAndNoConnection(t *testing.T) {
	g := parallelRig(t, Config{}) // no reader exists, so no connection does
	if k, _ := g.region(SmallSize, 0, readWrite); k == 0 {
		t.Error("no key")
	}
}

func TestMRREQ8OneMappingServesManyPeersAndConnections(t *testing.T) {
	g := parallelRig(t, Config{})
	k, _ := g.region(100, 1, RemoteRead)
	r1, r2 := g.reader("connection 1"), g.reader("connection 2")
	r1.Enter()
	r2.Enter() // both at once
	for _, r := range []*Reader{r1, r2} {
		for i := range 3 {
			req := g.read(k, 100)
			req.From = peerA
			for range i {
				req.From = req.From.Next()
			}
			if b, f := r.Check(req); f != None || len(b) != 100 || b[99] != 1 {
				t.Errorf("peer %v: %v", req.From, f)
			}
		}
	}
	r1.Leave()
	r2.Leave()
}

func TestMRREQ9InvalidationNeedsNoConnection(t *testing.T) {
	g := parallelRig(t, Config{})
	k, _ := g.region(100, 0, RemoteRead)
	r := g.NewReader("connection", nil)
	g.wantFault(r, g.read(k, 1), None)
	r.Close()
	g.ok(g.own.FreeInvalidate(t.Context(), k))
	g.wantFault(g.reader("the next connection"), g.read(k, 1), Revoked)
}

// TestMRREQ10FreeIsLazy frees while a section uses the region, without
// waiting for it.
func TestMRREQ10FreeIsLazy(t *testing.T) {
	inBubble(t, Config{}, func(g *rig) {
		r := g.reader("r")
		k, _ := g.region(100, 5, RemoteRead)
		r.Enter()
		b, _ := r.Check(g.read(k, 100))
		start := time.Now()
		g.ok(g.own.Free(k))
		if time.Since(start) != 0 {
			g.Error("Free waited")
		}
		if b[99] != 5 || g.Stats().Small.Dirty != 1 {
			g.Error("the memory was released under its reader")
		}
		r.Leave()
	})
}

func TestLazyFreesAreReleasedWithinLinger(t *testing.T) {
	inBubble(t, Config{Linger: 300 * time.Millisecond}, func(g *rig) {
		for range 3 {
			released := make(chan struct{})
			opt := g.options(0)
			opt.Released = func() { close(released) }
			start := time.Now()
			g.ok(g.own.Free(g.mapped(g.own, make([]byte, 8), opt)))
			<-released
			if took := time.Since(start); took > 300*time.Millisecond {
				g.Errorf("released after %v", took)
			}
		}
	})
}

func TestMRREQ11BarrierCoversBothPools(t *testing.T) {
	g := parallelRig(t, Config{})
	r := g.reader("r")
	var keys []Key
	var released atomic.Int32
	for i := range 4 {
		o := g.NewOwner(OwnerConfig{Name: fmt.Sprint("process ", i)})
		for j := range 250 {
			opt := g.options(RemoteRead)
			opt.Released = func() { released.Add(1) }
			k := g.mapped(o, make([]byte, []int{64, SmallSize + 1}[j%2]), opt)
			g.ok(o.Free(k))
			keys = append(keys, k)
		}
	}
	k, _ := g.region(64, 0, RemoteRead)
	g.ok(g.own.FreeInvalidate(t.Context(), k))
	for _, k := range append(keys, k) {
		if f := fault(r, g.read(k, 1)); f == None {
			t.Fatalf("key %v works after the barrier", k)
		}
	}
	s := g.Stats()
	if released.Load() != 1000 || s.Small.Dirty+s.Large.Dirty != 0 || s.Small.Pinned+s.Large.Pinned != 0 {
		t.Errorf("%d of 1000 released; %+v, %+v", released.Load(), s.Small, s.Large)
	}
}

// TestMRREQ12BarrierWaitsForAnOperationInFlight: an operation of several
// chunks holds the memory chunk by chunk. The barrier waits for the one being
// copied, and the next is refused, which cancels the operation.
func TestMRREQ12BarrierWaitsForAnOperationInFlight(t *testing.T) {
	inBubble(t, Config{}, func(g *rig) {
		r := g.reader("r")
		k, _ := g.region(2*4096, 0, readWrite)
		req := g.read(k, 4096)
		r.Enter()
		_, f := r.Check(req)
		done := later(func() error { return g.own.FreeInvalidate(g.Context(), k) })
		g.blocked(done, "FreeInvalidate under an operation in flight")
		r.Leave()
		g.ok(<-done)
		req.Addr += 4096
		g.wantFault(r, req, Revoked)
		if f != None {
			g.Error(f)
		}
	})
}

// TestMRREQ13LaterFreesDoNotDelayABarrier frees and opens sections all the
// time while a barrier waits for one section.
func TestMRREQ13LaterFreesDoNotDelayABarrier(t *testing.T) {
	inBubble(t, Config{}, func(g *rig) {
		slow, storm := g.reader("slow"), g.reader("storm")
		k, _ := g.region(64, 0, RemoteRead)
		k2, _ := g.region(64, 0, RemoteRead)
		slow.Enter()
		done := later(func() error { return g.own.FreeInvalidate(g.Context(), k) })
		g.blocked(done, "FreeInvalidate")
		// These come after the call: freed regions, and a section that uses one.
		for range 1000 {
			k, _ := g.region(64, 0, RemoteRead)
			g.ok(g.own.Free(k))
		}
		storm.Enter()
		if _, f := storm.Check(g.read(k2, 1)); f != None {
			g.Fatal(f)
		}
		g.ok(g.own.Free(k2))
		slow.Leave()
		g.ok(<-done) // though storm is still inside
		if g.Stats().Small.Dirty != 1001 {
			g.Errorf("%+v", g.Stats().Small)
		}
		storm.Leave()
	})
}

func TestMRREQ14BarrierAloneCoversEarlierFrees(t *testing.T) {
	g := parallelRig(t, Config{})
	g.ok(g.own.Barrier(t.Context()))
	same(t, "grace periods for nothing", g.Stats().Batches, 0)
	k, _ := g.region(LargeSize, 0, RemoteRead)
	g.ok(g.own.Free(k))
	g.ok(g.own.Barrier(t.Context()))
	if s := g.Stats(); s.Large.Dirty != 0 || s.Batches != 1 {
		t.Errorf("after a barrier: %+v, %d batches", s.Large, s.Batches)
	}
}

// TestMRREQ15ConcurrentBarriersShareAGracePeriod lets 64 callers meet while a
// section is open.
func TestMRREQ15ConcurrentBarriersShareAGracePeriod(t *testing.T) {
	inBubble(t, Config{}, func(g *rig) {
		const callers, each = 64, 1000
		r := g.reader("r")
		r.Enter()
		var done []<-chan error
		for range callers {
			o := g.NewOwner(OwnerConfig{Items: each})
			done = append(done, later(func() error {
				mem := make([]byte, 8)
				for range each {
					k, err := o.Map(mem, g.options(RemoteRead))
					if err != nil {
						return err
					}
					if err := o.Free(k); err != nil {
						return err
					}
				}
				return o.Barrier(context.Background())
			}))
		}
		for _, d := range done {
			g.blocked(d, "a barrier")
		}
		r.Leave()
		for _, d := range done {
			g.ok(<-d)
		}
		s := g.Stats()
		if s.Batches > 2 || s.Invalidations != callers*each || s.LargestBatch < callers*each/2 {
			g.Errorf("%d regions in %d batches, the largest of %d", s.Invalidations, s.Batches, s.LargestBatch)
		}
	})
}

func TestMRREQ16WatermarkInvalidatesInTheBackground(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]PoolConfig{
		"items":  {Items: 100}, // a fifth of them
		"pinned": {Items: 10000, FlushPinned: 20 * 64},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{Small: p, Linger: -1}, func(g *rig) {
				released := make(chan struct{}, 20)
				opt := g.options(RemoteRead)
				opt.Released = func() { released <- struct{}{} }
				for i := range 20 {
					g.ok(g.own.Free(g.mapped(g.own, make([]byte, 64), opt)))
					if i < 19 && len(released) != 0 {
						g.Fatalf("released after %d of 20 frees", i+1)
					}
				}
				for range 20 {
					<-released
				}
			})
		})
	}
}

func TestMRREQ16FullPoolInvalidatesAndRetries(t *testing.T) {
	inBubble(t, Config{Small: PoolConfig{Items: 4, FlushItems: 100}, Linger: -1}, func(g *rig) {
		o := g.NewOwner(OwnerConfig{Items: 4})
		r := g.reader("r")
		use := func() (k Key, err error) { return o.Map(make([]byte, 8), g.options(RemoteRead)) }
		for range 100 { // each fifth map finds the pool full of dropped regions
			k, err := use()
			g.ok(err)
			g.ok(o.Free(k))
		}
		g.ok(o.Barrier(g.Context()))
		var keys [4]Key
		for i := range keys {
			keys[i], _ = use()
		}
		_, err := use()
		g.want(err, ErrExhausted)
		g.want(err, syscall.EAGAIN)
		r.Enter()
		g.ok(o.Free(keys[0]))
		start := time.Now()
		if _, err := use(); !errors.Is(err, ErrExhausted) || time.Since(start) != 10*time.Millisecond {
			g.Errorf("map beside an open section: %v after %v", err, time.Since(start))
		}
		if s := g.Stats(); s.StuckReaders != 0 || s.Stale != 0 {
			g.Errorf("a short wait made a reader stuck: %+v", s)
		}
		r.Leave()
		g.ok(errOf(use()))
	})
}
