//go:build !live

package bench

import (
	"strings"
	"testing"
)

// What a worker is told is checked: a word that goes back has lost a change.
func TestAtomicWorkerNoticesLostChanges(t *testing.T) {
	for _, op := range []Op{OpAdd, OpSwap} {
		w := &Work{Kind: Atomic, Op: op, Words: 2, Depth: 1, Workers: 1, Size: wordSize}
		k := newAtomicWorker(&sender{c: &cell{work: w}}, nil, 1)
		for i, before := range []uint64{0, 5, 6} {
			if err := k.end(0, before); err != nil {
				t.Errorf("%s %d: %v", op, i, err)
			}
		}
		if want := map[Op]uint64{OpAdd: 3, OpSwap: 1}[op]; k.total != want { // a swap that expected 1 found 5, then the next 6
			t.Errorf("%s: %d changes, want %d", op, k.total, want)
		}
		if err := k.end(0, 4); err == nil || !strings.Contains(err.Error(), "earlier") {
			t.Errorf("%s: %v", op, err)
		}
	}
}
