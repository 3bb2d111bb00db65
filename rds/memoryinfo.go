package rds

import (
	"net/netip"

	"github.com/rds-go/rds/mr"
)

// MemoryInfo is what a node's table of memory regions has and did: mr.Stats of the
// transport that carries RDMA.
type MemoryInfo struct {
	Pools         []MemoryPoolInfo      `json:"pools"`
	Stale         int64                 `json:"stale"`           // regions whose invalidation is held up by a stuck reader
	Invalidations uint64                `json:"invalidations"`   // regions invalidated
	Batches       uint64                `json:"batches"`         // grace periods that covered them
	LargestBatch  uint64                `json:"largest_batch"`   // regions in one batch
	StuckReaders  uint64                `json:"stuck_readers"`   // invalidations that waited too long for a reader
	Refused       uint64                `json:"refused"`         // requests over a limit of pinned bytes of an application or a user
	BadKeys       []BadKeysInfo         `json:"bad_keys"`        // requests of peers that were refused, by reason
	Offenders     map[netip.Addr]uint64 `json:"offenders"`       // refused requests by peer; peers beyond the table's room have no address and count together
	BatchSize     []uint64              `json:"batch_size"`      // batches by size: element i those of at least 1<<(i-1) and less than 1<<i regions
	GraceTime     []uint64              `json:"grace_time_usec"` // batches by duration in microseconds, with the same bounds as BatchSize
}

// MemoryPoolInfo is one class of regions.
type MemoryPoolInfo struct {
	Name    string `json:"name"`    // "small", "large" or "registered"
	Live    int    `json:"live"`    // keys that work
	Dirty   int    `json:"dirty"`   // freed, not yet invalid
	Clean   int    `json:"clean"`   // bases ready for reuse
	Resting int    `json:"resting"` // bases in quarantine
	Pinned  int64  `json:"pinned"`  // bytes of live and dirty regions
	Full    uint64 `json:"full"`    // requests that found a limit reached
}

// BadKeysInfo counts requests that were refused for one reason.
type BadKeysInfo struct {
	Reason string `json:"reason"`
	Count  uint64 `json:"count"`
}

// memoryInfo describes the node's regions; nil if no transport has any.
func (n *Node) memoryInfo() *MemoryInfo {
	d, _, err := n.regions()
	if err != nil {
		return nil
	}
	s := d.Stats()
	info := &MemoryInfo{
		Stale: s.Stale, Invalidations: s.Invalidations, Batches: s.Batches, LargestBatch: s.LargestBatch,
		StuckReaders: s.StuckReaders, Refused: s.Refused, Offenders: s.Offenders, BatchSize: s.BatchSize[:], GraceTime: s.GraceTime[:],
	}
	for _, p := range []struct {
		name string
		mr.PoolStats
	}{{"small", s.Small}, {"large", s.Large}, {"registered", s.Registered}} {
		info.Pools = append(info.Pools, MemoryPoolInfo{Name: p.name, Live: p.Live, Dirty: p.Dirty, Clean: p.Clean, Resting: p.Resting, Pinned: p.Pinned, Full: p.Full})
	}
	for _, f := range mr.Faults() {
		info.BadKeys = append(info.BadKeys, BadKeysInfo{Reason: f.Error(), Count: s.BadKeys[f]})
	}
	return info
}
