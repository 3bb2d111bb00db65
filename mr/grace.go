package mr

import (
	"runtime"
	"sync/atomic"
	"time"
)

// grace waits until every reader section that is open has ended. One
// goroutine at a time does (the leader of an invalidation). It allocates
// nothing and writes no line that readers write, except where it must wait.
type grace struct {
	_ [64]byte
	// waiting is calling or patient while the leader sleeps. All readers read it
	// in Leave, so it has a line of its own.
	waiting atomic.Uint32
	_       [64]byte

	alone bool // one processor: no reader ends a section while the leader looks

	// left counts the awaited readers that have not reported. Who brings it to
	// 0 lets the leader go on: a reader by the bell, the leader by itself.
	left atomic.Int32
	bell chan struct{} // cap 1: a reader has brought left to 0

	pending []pendingReader // used by the leader only
}

const (
	calling = 1 + iota // readers that leave a section yield
	patient            // a reader is stuck, and yielding would not help
)

type pendingReader struct {
	*Reader
	seq uint64
}

func (p pendingReader) passed() bool { return p.Reader.seq.Load() != p.seq }

// spins is how often the leader looks again before it sleeps: about a
// microsecond, the length of a section that copies a few KiB.
const spins = 64

// begin remembers the sections that are open. It is called after the slots
// were cleared. It reports whether there are any that do not end at once.
func (g *grace) begin(readers []*Reader) bool {
	g.pending = g.pending[:0]
	for _, r := range readers {
		if seq := r.seq.Load(); seq&1 != 0 {
			g.pending = append(g.pending, pendingReader{r, seq})
		}
	}
	if len(g.pending) > 0 && !g.alone {
		for range spins {
			if g.sweep() == 0 {
				break
			}
		}
	}
	if len(g.pending) == 0 {
		return false
	}
	return g.arm()
}

// quickLooks is how often quick looks: some tens of microseconds.
const quickLooks = 1 << 15

// quick waits, without the leader's state and without sleeping, until every
// section that is open has ended. It returns false if one takes longer than a
// section should.
func (g *grace) quick(readers []*Reader) bool {
	left := quickLooks
	if g.alone {
		left = 0
		runtime.Gosched()
	}
	for _, r := range readers {
		p := pendingReader{r, r.seq.Load()}
		for p.seq&1 != 0 && !p.passed() {
			if left--; left < 0 {
				return false
			}
		}
	}
	return true
}

// sweep forgets the sections that have ended.
func (g *grace) sweep() int {
	n := 0
	for _, p := range g.pending {
		if !p.passed() {
			g.pending[n] = p
			n++
		}
	}
	clear(g.pending[n:])
	g.pending = g.pending[:n]
	return n
}

// arm makes the readers report. It returns false if they all have passed already.
func (g *grace) arm() bool {
	g.left.Store(int32(len(g.pending)))
	g.waiting.Store(calling)
	for _, p := range g.pending {
		p.awaited.Store(1)
		// Either we see that it has passed, or it sees that it is awaited;
		// if both, the swap decides who counts.
		if p.passed() && p.awaited.CompareAndSwap(1, 0) && g.left.Add(-1) == 0 {
			g.end()
			return false
		}
	}
	return true
}

// passed is called by readers between two sections while the leader sleeps.
func (g *grace) passed(r *Reader) {
	if r.awaited.CompareAndSwap(1, 0) && g.left.Add(-1) == 0 {
		g.bell <- struct{}{} // does not block: one token for each arm
	}
	if g.waiting.Load() == calling {
		runtime.Gosched()
	}
}

// end is called when the last one has passed.
func (g *grace) end() {
	g.waiting.Store(0)
	clear(g.pending)
	g.pending = g.pending[:0]
}

// wait sleeps until all have passed, or stop or expired lets it give up; it
// can then be called again.
func (g *grace) wait(stop <-chan struct{}, expired <-chan time.Time) (over, late bool) {
	select {
	case <-g.bell:
		g.end()
		return true, false
	case <-stop:
		return false, false
	case <-expired:
		return false, true
	}
}

// held are the names of the readers still awaited.
func (g *grace) held() (readers []*Reader) {
	for _, p := range g.pending {
		if !p.passed() {
			readers = append(readers, p.Reader)
		}
	}
	return readers
}
