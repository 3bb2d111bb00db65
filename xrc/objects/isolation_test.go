//go:build !live

package objects

import (
	"testing"
)

// A peer that has a target in one job tries every number there is of a queue: it finds the
// queues of that job and nothing else.
func TestXRCREQ47APeerReachesItsOwnDomainOnly(t *testing.T) {
	g := parallelRig(t, Config{})
	x, y := g.process("x", g.file("job x")), g.process("y", g.file("job y"))
	tgt, c := x.up(peer(1))
	y.up(peer(2))
	y.initiator()
	mine, theirs := map[uint32]*SRQ{}, map[uint32]*SRQ{}
	for range 20 {
		qx, qy := x.srq(4), y.srq(4)
		posted(t, qx, 1)
		posted(t, qy, 1)
		mine[qx.Num()], theirs[qy.Num()] = qx, qy
	}
	found := 0
	for n := uint32(0); n < 1<<24; n++ {
		if n > firstInitiator {
			n += 96 // numbers of other kinds: a sample does
		}
		q, err := g.Resolve(n, tgt)
		if err != nil {
			continue
		}
		found++
		if mine[n] != q {
			t.Fatalf("%06x leads to %v", n, q)
		}
	}
	if found != len(mine) {
		t.Errorf("found %d queues of %d", found, len(mine))
	}
	for _, n := range []uint32{1 << 24, 1<<24 + firstSRQ, 1<<32 - 1} {
		if _, err := g.Resolve(n, tgt); err != ErrUnknownSRQ {
			t.Errorf("%x: %v", n, err)
		}
	}
	for n, q := range theirs {
		if _, err := g.Resolve(n, tgt); err != ErrUnknownSRQ || q.Query().Posted != 1 {
			t.Errorf("%06x: %v, %+v", n, err, q.Query())
		}
	}
	g.alive(c) // what a bad number costs is the transport's to say
	g.events(x.Session)
}

func TestResolveAllocatesNothing(t *testing.T) {
	g := newRig(t, Config{})
	p := g.process("p", g.file("job"))
	tgt, _ := p.up(peer(1))
	q := p.srq(4)
	n := q.Num()
	posted(t, q, 1)
	if a := testing.AllocsPerRun(1000, func() {
		if s, err := g.Resolve(n, tgt); err != nil || s.Posted() != 1 {
			t.Fatal(err)
		}
		if _, err := g.Resolve(n+1, tgt); err != ErrUnknownSRQ {
			t.Fatal(err)
		}
	}); a != 0 {
		t.Errorf("%v allocations", a)
	}
}
