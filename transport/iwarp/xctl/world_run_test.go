package xctl

import (
	"fmt"
	"testing"
)

// TestEveryMessageOnceInOrderOrRefused runs two ends against each other while
// queues run dry, end, begin again and refuse. Every message is delivered once
// and reported so, or reported as refused and never delivered; each queue keeps
// its order; nothing is stuck; neither end finds fault with the other.
func TestEveryMessageOnceInOrderOrRefused(t *testing.T) {
	t.Parallel()
	var all world
	for seed := range uint64(400) {
		retries := uint8(seed % 3)
		w := newWorld(seed, honest, 1+int(seed%5), 300, retries)
		if err := w.run(); err != nil {
			t.Fatalf("seed %d, %d retries: %v", seed, retries, err)
		}
		all.rnr += w.rnr
		all.replays += w.replays
		all.refused += w.refused
		all.unknowns += w.unknowns
		all.cuts += w.cuts
		all.adopts += w.adopts
		all.withdrawn += w.withdrawn
		all.rests += w.rests
	}
	s := fmt.Sprintf("%d stops, %d replays, %d refused, %d without a queue, %d cut short, %d entries, %d withdrawn, %d rests",
		all.rnr, all.replays, all.refused, all.unknowns, all.cuts, all.adopts, all.withdrawn, all.rests)
	t.Log(s)
	if min(all.rnr, all.replays, all.refused, all.unknowns, all.cuts, all.adopts, all.withdrawn, all.rests) < 300 {
		t.Errorf("too little of something: %s", s)
	}
}

// TestTheRunFindsBrokenRules breaks one rule at a time, to show that the test
// above could fail.
func TestTheRunFindsBrokenRules(t *testing.T) {
	t.Parallel()
	for sab := honest + 1; sab < sabotages; sab++ {
		t.Run(sabotageNames[sab], func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(400) {
				if err := newWorld(seed, sab, 1+int(seed%5), 300, 0).run(); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Error("not noticed")
		})
	}
}
