package node

import (
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/rds/info"
)

// memoryInfo describes the node's regions; nil if no transport has any.
func (n *Node) memoryInfo() *info.Memory {
	d := n.Regions()
	if d == nil {
		return nil
	}
	s := d.Stats()
	report := &info.Memory{
		Stale: s.Stale, Invalidations: s.Invalidations, Batches: s.Batches, LargestBatch: s.LargestBatch,
		StuckReaders: s.StuckReaders, Refused: s.Refused, Offenders: s.Offenders, BatchSize: s.BatchSize[:], GraceTime: s.GraceTime[:], GraceTotal: uint64(s.GraceTotal),
	}
	for _, p := range []struct {
		name string
		mr.PoolStats
	}{{"small", s.Small}, {"large", s.Large}, {"registered", s.Registered}} {
		report.Pools = append(report.Pools, info.MemoryPool{Name: p.name, Live: p.Live, Dirty: p.Dirty, Clean: p.Clean, Resting: p.Resting, Pinned: p.Pinned, Full: p.Full})
	}
	for _, f := range mr.Faults() {
		report.BadKeys = append(report.BadKeys, info.BadKeys{Reason: f.Error(), Count: s.BadKeys[f]})
	}
	return report
}
