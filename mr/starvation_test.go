package mr

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// greedy runs goroutines that never give up the processor between sections,
// until stop. It returns when all of them are at it.
func (g *rig) greedy(n int, k Key, length int) (stop func()) {
	var wg, ready sync.WaitGroup
	var over atomic.Bool
	ready.Add(n)
	for range n {
		r := g.reader("greedy")
		wg.Go(func() {
			req := g.read(k, length)
			dst := make([]byte, length)
			for i := 0; !over.Load(); i++ {
				r.Enter()
				b, f := r.Check(req)
				copy(dst, b)
				r.Leave()
				if f != None {
					g.Error(f)
				}
				if i == 0 {
					ready.Done()
				}
			}
		})
	}
	ready.Wait()
	return func() { over.Store(true); wg.Wait() }
}

// TestMRREQ18SaturatingCopiesDoNotStarveABarrier: invalidation shares no queue
// with data, and readers give way to it. They never pause, so a barrier that is
// starved does not end; BenchmarkBarrier measures how long one takes.
func TestMRREQ18SaturatingCopiesDoNotStarveABarrier(t *testing.T) {
	g := parallelRig(t, Config{})
	k, _ := g.region(SmallSize, 0, RemoteRead)
	defer g.greedy(16*runtime.GOMAXPROCS(0), k, SmallSize)()
	for range 20 {
		k, _ := g.region(8, 0, RemoteRead)
		g.ok(g.own.FreeInvalidate(t.Context(), k))
	}
}

// TestMRREQ19RevokeDoesNotQueueBehindReleases: while the batch before it is
// busy calling owners, a peer's revocation is done at once.
func TestMRREQ19RevokeDoesNotQueueBehindReleases(t *testing.T) {
	inBubble(t, Config{}, func(g *rig) {
		r := g.reader("r")
		hold := make(chan struct{})
		opt := g.options(0)
		opt.Released = func() { <-hold }
		k := g.mapped(g.own, make([]byte, 8), opt)
		busy := later(func() error { return g.own.FreeInvalidate(g.Context(), k) })
		g.blocked(busy, "a slow release")
		victim, _ := g.region(8, 0, RemoteRead)
		start := time.Now()
		if f := r.Revoke(victim, g.dom, peerA); f != None {
			g.Error(f)
		}
		g.wantFault(r, g.read(victim, 1), Revoked)
		if time.Since(start) != 0 {
			g.Error("Revoke waited")
		}
		close(hold)
		g.ok(<-busy)
	})
}

// TestMRREQ21HalfAWriteDoesNotDelayInvalidation: a peer sends half of a write
// and stops. The half was placed in a section that is over, so nothing waits.
func TestMRREQ21HalfAWriteDoesNotDelayInvalidation(t *testing.T) {
	inBubble(t, Config{}, func(g *rig) {
		r := g.reader("r")
		k, mem := g.region(8192, 0, readWrite)
		req := &Request{Key: k, Domain: g.dom, From: peerA, Rights: RemoteWrite, Len: 4096}
		r.Enter()
		b, f := r.Check(req)
		b[0] = 1
		r.Leave()
		if f != None {
			g.Fatal(f)
		}
		start := time.Now()
		g.ok(g.own.FreeInvalidate(g.Context(), k))
		if time.Since(start) != 0 {
			g.Error("the barrier waited")
		}
		req.Addr = 4096 // the other half arrives at last
		g.wantFault(r, req, Revoked)
		if mem[0] != 1 || mem[4096] != 0 {
			g.Error("placed bytes are wrong")
		}
	})
}

// TestLeaveReportsOnlyOnce: sections that begin while an invalidation waits are none of
// its business, and its bell is rung once.
func TestLeaveReportsOnlyOnce(t *testing.T) {
	inBubble(t, Config{}, func(g *rig) {
		readers := []*Reader{g.reader("a"), g.reader("b"), g.reader("c")}
		for range 10 {
			k, _ := g.region(8, 0, RemoteRead)
			readers[0].Enter()
			readers[1].Enter()
			done := later(func() error { return g.own.FreeInvalidate(g.Context(), k) })
			g.blocked(done, "FreeInvalidate")
			readers[0].Leave()
			readers[0].Enter()
			readers[0].Leave()
			readers[2].Enter()
			g.blocked(done, "FreeInvalidate with one section left")
			readers[1].Leave()
			g.ok(<-done)
			readers[2].Leave()
			if len(g.grace.bell) != 0 || g.grace.waiting.Load() != 0 {
				g.Fatal("something is left of the grace period")
			}
		}
	})
}

// TestArmSeesReadersThatPassedMeanwhile: a reader may leave for good between
// the look at it and the request to report.
func TestArmSeesReadersThatPassedMeanwhile(t *testing.T) {
	g := parallelRig(t, Config{})
	a, b := g.reader("a"), g.reader("b")
	a.Enter()
	b.Enter()
	both := []pendingReader{{a, a.seq.Load()}, {b, b.seq.Load()}}
	a.Leave()
	g.grace.pending = append(g.grace.pending, both...)
	if !g.grace.arm() || g.grace.left.Load() != 1 {
		t.Fatalf("%d readers left, want b", g.grace.left.Load())
	}
	b.Leave()
	if over, _ := g.grace.wait(nil, nil); !over {
		t.Error("the bell did not ring")
	}
	g.grace.pending = append(g.grace.pending, both...)
	if g.grace.arm() {
		t.Error("waits for readers that have passed")
	}
}
