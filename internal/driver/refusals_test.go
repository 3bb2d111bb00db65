package driver

import (
	"cmp"
	"math/rand/v2"
	"testing"

	"github.com/rds-go/rds/transport"
)

// refusalModel is what a path has refused, without a bound: by number, and whether the
// peer has heard.
type refusalModel struct {
	refused map[uint64]bool // heard
	told    []uint64        // on the present link
}

// A receiver with links that are lost at any moment: a refused message that the peer has
// not heard of is never answered as delivered when it comes again, and one that was
// delivered is never answered as one that was not.
func TestRefusalsAreRemembered(t *testing.T) {
	t.Parallel()
	unknown := 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		q := Refusals{limit: 16}
		m := refusalModel{refused: map[uint64]bool{}}
		next, first := uint64(1000), uint64(1000) // number of the next message; the lowest that has not ended at the peer
		exact := seed%3 > 0                       // few enough to know each
		if exact {
			q.limit = 0
		}
		canceled := map[uint64]bool{} // by their sender: they do not come again
		links := 40
		for range links {
			q.begin(1)
			m.told = nil
			if rng.IntN(3) == 0 && first < next {
				canceled[first+uint64(rng.IntN(int(next-first)))] = true
			}
			resent := first
			for resent < next && canceled[resent] {
				resent++
			}
			for resent < next && rng.IntN(int(next-first)*2) > 0 { // those that have not ended come again
				if q.pending {
					q.passed(resent)
				}
				heard, refused := m.refused[resent]
				why := q.find(resent)
				switch {
				case refused && !heard && why == 0:
					t.Fatalf("seed %d: message %d was refused, and is taken for delivered", seed, resent)
				case !refused && why == transport.RefusedPort:
					t.Fatalf("seed %d: message %d was delivered, and is refused", seed, resent)
				case why == transport.RefusedUnknown:
					if unknown++; exact {
						t.Fatalf("seed %d: message %d is not known any more", seed, resent)
					}
				}
				if why != 0 {
					q.add(resent, why)
					m.told = append(m.told, resent)
				}
				for resent++; resent < next && canceled[resent]; {
					resent++
				}
			}
			if resent >= next {
				most := 300
				if !exact {
					most = 100
				}
				next = m.burst(&q, rng, next, most)
			}
			m.hear(&q, rng)
			if len(q.told)+len(q.before) > cmp.Or(q.limit, maxRefusals) {
				t.Fatalf("seed %d: %d runs are remembered", seed, len(q.told)+len(q.before))
			}
			// Acknowledgements end the first ones at the peer, those that it has heard the fate of.
			for to := first + uint64(rng.IntN(int(next-first)/4+1)); first < to; first++ {
				if heard, refused := m.refused[first]; refused && !heard && !canceled[first] {
					break
				}
			}
		}
	}
	if unknown == 0 {
		t.Error("the bound was never reached")
	}
}

// burst has up to most new messages come, some of which are refused, at once or at the end of
// their burst.
func (m *refusalModel) burst(q *Refusals, rng *rand.Rand, next uint64, most int) uint64 {
	var late []uint64 // at the end of the burst
	add := func(number uint64) {
		q.add(number, transport.RefusedPort)
		m.refused[number] = false
		m.told = append(m.told, number)
	}
	for range rng.IntN(most) {
		if q.pending {
			q.passed(next)
		}
		switch rng.IntN(8) {
		case 0, 1, 2:
			add(next)
		case 3:
			late = append(late, next)
		}
		if next++; rng.IntN(10) == 0 {
			for _, number := range late {
				add(number)
			}
			late = nil
		}
	}
	for _, number := range late {
		add(number)
	}
	return next
}

// hear has the peer hear of some refusals that it was told.
func (m *refusalModel) hear(q *Refusals, rng *rand.Rand) {
	if len(m.told) > 0 && rng.IntN(2) == 0 {
		n := 1 + rng.IntN(len(m.told))
		q.heard(uint64(n))
		for _, number := range m.told[:n] {
			if _, ok := m.refused[number]; ok {
				m.refused[number] = true
			}
		}
	}
}

// Another generation of the peer has numbers of its own.
func TestRefusalsOfAGeneration(t *testing.T) {
	t.Parallel()
	var q Refusals
	q.begin(1)
	q.add(7, transport.RefusedPort)
	q.sync(1)
	if q.find(7) == 0 {
		t.Error("forgotten without a reason")
	}
	q.begin(2)
	if q.find(7) != 0 || q.pending {
		t.Error("the last generation's message is remembered")
	}
}
