package rds

import "github.com/rds-go/rds/mr"

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
