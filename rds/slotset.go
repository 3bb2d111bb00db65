package rds

import (
	"sync/atomic"

	"github.com/rds-go/rds/internal/ipc"
)

// slotSet is a set of slots of the table.
type slotSet [ipc.MaxPeers / 64]atomic.Uint64

func (h *slotSet) add(slot uint32) {
	if slot >= ipc.MaxPeers {
		return
	}
	w, bit := &h[slot/64], uint64(1)<<(slot%64)
	if w.Load()&bit == 0 {
		w.Or(bit)
	}
}

func (h *slotSet) has(slot uint32) bool {
	return slot < ipc.MaxPeers && h[slot/64].Load()>>(slot%64)&1 != 0
}

// legacy is the set for another process, and inherit takes it over: a set that is not there
// has everything.
func (h *slotSet) legacy() []uint64 {
	out := make([]uint64, len(h))
	for i := range h {
		out[i] = h[i].Load()
	}
	return out
}

func (h *slotSet) inherit(set []uint64) {
	for i := range h {
		if i < len(set) {
			h[i].Store(set[i])
		} else {
			h[i].Store(^uint64(0))
		}
	}
}

// remove takes the slots of another set out.
func (h *slotSet) remove(others *slotSet) {
	for i := range h {
		if v := others[i].Load(); h[i].Load()&v != 0 {
			h[i].And(^v)
		}
	}
}
