package conn

import (
	"math/rand/v2"
	"testing"

	"github.com/rds-go/rds/internal/wire"
)

// within is a link of path 0 that takes no more octets than it was granted.
type within struct {
	*opBench
	r       *rand.Rand
	lost    bool // links have been: what they had is picked, and has no octets on the next
	claimed int  // octets of what was picked and is not written
	free    int  // octets granted and not claimed
}

// pickedBytes are those of what path 0 has picked and not written.
func (w *within) pickedBytes() (n int) {
	p := &w.paths[0]
	for pos := p.q.next; pos < p.q.fresh; pos++ {
		if e := p.q.at(pos); e.flags&entrySilent == 0 {
			n += e.size()
		}
	}
	return n - p.nextOff + len(p.control) - p.controlOff
}

// step fills and writes some of that. It returns how many octets more Fill needs, 0 if
// it has shown something or there is nothing.
func (w *within) step() (short int) {
	w.t.Helper()
	ok := w.FillWithin(0, &w.b, w.claimed, w.free)
	w.claimed += w.b.Octets
	w.free -= w.b.Octets
	if w.free < 0 {
		w.t.Fatalf("%d octets picked beyond the grant", -w.free)
	}
	if got := w.pickedBytes(); got != w.claimed && !(w.lost && got > w.claimed) || w.b.Bytes > w.claimed {
		w.t.Fatalf("%d octets picked, %d shown, %d claimed", got, w.b.Bytes, w.claimed)
	}
	if !ok {
		return w.b.Short
	}
	n := w.r.IntN(w.b.Bytes + 1)
	if w.r.IntN(2) == 0 {
		n = w.b.Bytes
	}
	t := take(&w.b, n, w.r.IntN(len(w.b.Ops)+1))
	w.Wrote(0, t)
	w.check()
	w.claimed -= w.b.Taken(t)
	for _, b := range begun(&w.b, t) {
		w.done(b.Op, Success)
	}
	return 0
}

// A message is numbered only when there are octets for all of it, a map and a probe are
// made only then, and what Fill says is missing is what it needs, whatever the link takes
// and is granted, and after links are lost.
func TestFillWithinGrants(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		w := &within{opBench: newOpBench(t), r: rand.New(rand.NewPCG(seed, 4))}
		w.drain(0)
		const messages = 60
		losses := 0
		for sent := 0; sent < messages || w.Ready(0); {
			switch k := w.r.IntN(12); {
			case sent < messages && k < 3:
				w.send(nil)
				sent++
			case sent < messages && k == 3:
				w.send(&Operation{Fence: w.r.IntN(2) == 0, Silent: w.r.IntN(3) == 0, Epoch: w.Epoch()})
				sent++
			case k == 4 && sent < messages:
				w.MapChanged()
			case k == 5 && losses < int(seed%4):
				losses++
				w.lose()
				w.lost, w.claimed, w.free = true, 0, 0
			default:
				short := w.step()
				if short == 0 {
					continue
				}
				if w.free += w.r.IntN(short); w.step() == 0 {
					t.Fatalf("seed %d: with less than the %d octets that were missing there is something to write", seed, short)
				}
				w.free = short
				if w.step() != 0 {
					t.Fatalf("seed %d: %d octets are not enough", seed, short)
				}
			}
		}
		if w.claimed != 0 || w.Picked(0) {
			t.Errorf("seed %d: %d octets claimed for nothing", seed, w.claimed)
		}
	}
}

// What has no number when its port turns out to be full is held back, also if it was next
// and only octets were missing.
func TestFullPortKeepsWhatHasNoOctets(t *testing.T) {
	t.Parallel()
	w := &within{opBench: newOpBench(t), r: rand.New(rand.NewPCG(1, 1))}
	w.drain(0)
	for range 3 {
		w.sendTo(5000, nil)
	}
	w.sendTo(6000, nil)
	if !w.FillWithin(0, &w.b, 0, 2*opSize+opSize-1) || w.b.Octets != 2*opSize || w.b.Bytes != 2*opSize {
		t.Fatalf("%d octets of %d bytes", w.b.Octets, w.b.Bytes)
	}
	w.held(true, 5000)
	w.wrote(opSize + 1)
	if !w.FillWithin(0, &w.b, opSize-1, wire.HeaderSize) || w.b.Octets != 0 || w.b.Bytes != opSize-1 {
		t.Fatalf("%d octets of %d bytes", w.b.Octets, w.b.Bytes)
	}
	w.wrote(opSize - 1)
	w.wrotePorts(0, 6000)
	w.held(false, 5000)
	w.wrotePorts(0, 5000)
}
