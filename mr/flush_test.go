package mr

import (
	"context"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestMRREQ17InterruptedFreeGoesOn(t *testing.T) {
	t.Parallel()
	for _, leader := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, Config{Linger: -1})
			r := g.reader("r")
			released := false
			opt := g.options(RemoteRead)
			opt.Released = func() { released = true }
			k := g.mapped(g.own, make([]byte, 8), opt)
			r.Enter()
			other := make(<-chan error)
			if !leader { // somebody else leads the batch before
				k2, _ := g.region(8, 0, 0)
				other = later(func() error { return g.own.FreeInvalidate(context.Background(), k2) })
				g.blocked(other, "the leader")
			}
			ctx, cancel := context.WithCancel(g.Context())
			done := later(func() error { return g.own.FreeInvalidate(ctx, k) })
			g.blocked(done, "FreeInvalidate")
			cancel()
			err := <-done
			g.want(err, syscall.EINTR)
			g.want(err, context.Canceled)
			if released {
				g.Error("EINTR is not a guarantee, but released is")
			}
			barrier := later(func() error { return g.own.Barrier(context.Background()) })
			g.blocked(barrier, "a barrier with the section still open")
			r.Leave()
			g.ok(<-barrier)
			if !released {
				g.Error("a later barrier did not cover the interrupted free")
			}
			if !leader {
				g.ok(<-other)
			}
		})
	}
}

// TestBatchOfAnInterruptedLeaderIsDone ends the only waiter of a batch in the
// moment it is made leader. Whether it sees the one or the other first, the
// batch must be done.
func TestBatchOfAnInterruptedLeaderIsDone(t *testing.T) {
	inBubble(t, Config{Linger: -1}, func(g *rig) {
		ctx, cancel := context.WithCancel(g.Context())
		cancel()
		f := &g.flusher
		led := 0
		for range 50 {
			k, _ := g.region(8, 0, 0)
			g.ok(g.own.Free(k))
			f.mu.Lock()
			b := f.newBatchLocked()
			f.current = b
			b.joinLocked()
			b.lead <- struct{}{}
			f.mu.Unlock()
			if g.await(ctx, b, time.Second) == nil {
				led++
			}
			<-b.done
			if n := g.Stats().Small.Dirty; n != 0 {
				g.Fatalf("%d regions dirty", n)
			}
		}
		if led == 0 || led == 50 {
			g.Errorf("led %d of 50 times, the test shows one case only", led)
		}
	})
}

func TestBarriersEndInAnyOrderOfInterruptions(t *testing.T) {
	g := parallelRig(t, Config{Linger: -1})
	r := g.reader("r")
	for range 200 {
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		r.Enter()
		for range 4 {
			k, _ := g.region(8, 0, 0)
			wg.Go(func() { _ = g.own.FreeInvalidate(ctx, k) })
		}
		wg.Go(cancel)
		r.Leave()
		wg.Wait()
		g.ok(g.own.Barrier(context.Background()))
		if n := g.Stats().Small.Dirty; n != 0 {
			t.Fatalf("%d regions dirty after a barrier", n)
		}
	}
}

func TestWatermarkBehindABatchStartsTheNext(t *testing.T) {
	inBubble(t, Config{Small: PoolConfig{Items: 100}, Linger: -1}, func(g *rig) {
		r := g.reader("r")
		released := make(chan struct{}, 40)
		opt := g.options(RemoteRead)
		opt.Released = func() { released <- struct{}{} }
		r.Enter()
		for range 2 {
			for range 20 {
				g.ok(g.own.Free(g.mapped(g.own, make([]byte, 64), opt)))
			}
			synctest.Wait() // for the keeper
		}
		r.Leave()
		for range 40 {
			<-released
		}
	})
}
