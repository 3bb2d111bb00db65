package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rds-go/rds/rds"
)

// Metrics of the memory regions that peers may reach by RDMA.
var (
	regionsDesc      = prometheus.NewDesc("rds_memory_regions", "Memory regions by pool, and by state: live, dirty (freed, not yet invalid), clean (numbers ready for reuse), resting (numbers in quarantine).", []string{"pool", "state"}, nil)
	pinnedDesc       = prometheus.NewDesc("rds_memory_pinned_bytes", "Memory of live and dirty regions.", []string{"pool"}, nil)
	poolFullDesc     = prometheus.NewDesc("rds_memory_full_total", "Requests for a region that found a limit reached.", []string{"pool"}, nil)
	badKeysDesc      = prometheus.NewDesc("rds_memory_bad_keys_total", "Requests of peers for memory that were refused.", []string{"reason"}, nil)
	staleDesc        = prometheus.NewDesc("rds_memory_stale", "Regions whose invalidation is held up by a stuck reader.", nil, nil)
	invalidatedDesc  = prometheus.NewDesc("rds_memory_invalidations_total", "Memory regions invalidated.", nil, nil)
	batchesDesc      = prometheus.NewDesc("rds_memory_batches_total", "Grace periods that covered them.", nil, nil)
	batchSizeDesc    = prometheus.NewDesc("rds_memory_batch_regions", "Memory regions invalidated by one grace period.", nil, nil)
	graceTimeDesc    = prometheus.NewDesc("rds_memory_grace_seconds", "Duration of a grace period.", nil, nil)
	stuckReadersDesc = prometheus.NewDesc("rds_memory_stuck_readers_total", "Invalidations that waited too long for a reader.", nil, nil)
	overPinnedDesc   = prometheus.NewDesc("rds_memory_refused_total", "Requests for a region over a limit of pinned bytes of an application or a user.", nil, nil)
)

var memoryDescs = []*prometheus.Desc{regionsDesc, pinnedDesc, poolFullDesc, badKeysDesc, staleDesc, invalidatedDesc, batchesDesc, batchSizeDesc, graceTimeDesc, stuckReadersDesc, overPinnedDesc}

// collectMemory shows the memory regions of a node that has some.
func collectMemory(out chan<- prometheus.Metric, m *rds.MemoryInfo) {
	if m == nil {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	for _, p := range m.Pools {
		gauge(regionsDesc, float64(p.Live), p.Name, "live")
		gauge(regionsDesc, float64(p.Dirty), p.Name, "dirty")
		gauge(regionsDesc, float64(p.Clean), p.Name, "clean")
		gauge(regionsDesc, float64(p.Resting), p.Name, "resting")
		gauge(pinnedDesc, float64(p.Pinned), p.Name)
		counter(poolFullDesc, p.Full, p.Name)
	}
	for _, b := range m.BadKeys {
		counter(badKeysDesc, b.Count, b.Reason)
	}
	gauge(staleDesc, float64(m.Stale))
	counter(invalidatedDesc, m.Invalidations)
	counter(batchesDesc, m.Batches)
	count, sizes := cumulate(m.BatchSize, func(bound uint64) float64 { return float64(bound - 1) })
	out <- prometheus.MustNewConstHistogram(batchSizeDesc, count, float64(m.Invalidations), sizes)
	count, times := cumulate(m.GraceTime, func(bound uint64) float64 { return float64(bound) / 1e6 })
	out <- prometheus.MustNewConstHistogram(graceTimeDesc, count, float64(m.GraceTotal)/1e9, times)
	counter(stuckReadersDesc, m.StuckReaders)
	counter(overPinnedDesc, m.Refused)
}

// cumulate makes Prometheus' cumulative buckets of counts whose element i counts what is below 1<<i,
// the last one also what is beyond. upper returns the label of a bound.
func cumulate(counts []uint64, upper func(bound uint64) float64) (all uint64, buckets map[float64]uint64) {
	buckets = make(map[float64]uint64, len(counts))
	for i, n := range counts {
		if all += n; i < len(counts)-1 {
			buckets[upper(1<<i)] = all
		}
	}
	return all, buckets
}
