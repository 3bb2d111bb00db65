package node

import (
	"sync/atomic"

	"github.com/rds-go/rds/internal/ipc"
)

// SlotSet is a set of slots of the table.
type SlotSet [ipc.MaxPeers / 64]atomic.Uint64

func (h *SlotSet) Add(slot uint32) {
	if slot >= ipc.MaxPeers {
		return
	}
	w, bit := &h[slot/64], uint64(1)<<(slot%64)
	if w.Load()&bit == 0 {
		w.Or(bit)
	}
}

func (h *SlotSet) Has(slot uint32) bool {
	return slot < ipc.MaxPeers && h[slot/64].Load()>>(slot%64)&1 != 0
}

// Legacy is the set for another process, and inherit takes it over: a set that is not there
// has everything.
func (h *SlotSet) Legacy() []uint64 {
	out := make([]uint64, len(h))
	for i := range h {
		out[i] = h[i].Load()
	}
	return out
}

func (h *SlotSet) Inherit(set []uint64) {
	for i := range h {
		if i < len(set) {
			h[i].Store(set[i])
		} else {
			h[i].Store(^uint64(0))
		}
	}
}

// Remove takes the slots of another set out.
func (h *SlotSet) Remove(others *SlotSet) {
	for i := range h {
		if v := others[i].Load(); h[i].Load()&v != 0 {
			h[i].And(^v)
		}
	}
}
