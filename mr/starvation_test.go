package mr

import (
	"runtime"
	"testing"
	"time"
)

// TestMRREQ18SaturatingCopiesDoNotStarveABarrier: invalidation shares no queue
// with data, and readers give way to it. They never pause, so a barrier that is
// starved does not end; BenchmarkBarrier measures how long one takes.
func TestMRREQ18SaturatingCopiesDoNotStarveABarrier(t *testing.T) {
	g := parallelRig(t, Config{})
	defer copiers(t, g.Device, g.dom, g.own, 16*runtime.GOMAXPROCS(0), SmallSize, false)()
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
