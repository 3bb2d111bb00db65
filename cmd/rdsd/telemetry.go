package main

import (
	"errors"
	"net/netip"
	"os"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/rds-go/rds/ebpf"
)

// telemetrySettings say whether metrics have what the kernel measures.
type telemetrySettings struct {
	Kernel string `toml:"kernel"`
}

// Values of telemetry.kernel.
const (
	telemetryAuto = "auto" // shown if rdsbpf has loaded telemetry
	telemetryOff  = "off"
)

func defaultTelemetry() telemetrySettings {
	return telemetrySettings{Kernel: telemetryAuto}
}

func (t *telemetrySettings) check(c *checks) {
	if t.Kernel != telemetryAuto && t.Kernel != telemetryOff {
		c.add("telemetry.kernel", "%q is neither %q nor %q", t.Kernel, telemetryAuto, telemetryOff)
	}
}

// telemetryMetrics shows what the kernel measures of the TCP connections in the network namespace
// of the daemon. The pins are opened for each scrape, so that they may come, go and be replaced
// while the daemon runs.
type telemetryMetrics struct {
	dir string

	mu    sync.Mutex // guards what follows
	peers map[kernelPeer]*kernelTotals
}

// kernelPeer is what connections are summed up by.
type kernelPeer struct{ local, remote netip.Addr }

// kernelTotals are histograms of a peer. They go on when one of several connections ends, and
// begin anew when all have ended.
type kernelTotals struct {
	rtts, waits ebpf.Histogram
	seen        map[uint64]*ebpf.Connection // the last snapshot, by cookies
}

var (
	kernelPartDesc = prometheus.NewDesc("rds_kernel_telemetry", "1 for each part of the kernel's telemetry that is loaded.", []string{"part"}, nil)
	kernelRTTDesc  = prometheus.NewDesc("rds_kernel_rtt_seconds", "Round-trip times that TCP has measured, of all connections with a peer.", []string{"local", "peer"}, nil)
	kernelWaitDesc = prometheus.NewDesc("rds_kernel_receive_wait_seconds", "Time from the arrival of data to the end of its reading.", []string{"local", "peer"}, nil)
	kernelDropDesc = prometheus.NewDesc("rds_kernel_dropped_packets_total", "TCP packets of RDS that the kernel of this host has dropped, by its reason.", []string{"reason"}, nil)
)

// newTelemetry is nil if telemetry is off. Telemetry is pinned beside the filter of strangers.
func newTelemetry(t telemetrySettings, pins string, log *zap.Logger) prometheus.Collector {
	if t.Kernel == telemetryOff {
		return nil
	}
	switch tel, err := ebpf.OpenTelemetry(pins); {
	case err == nil:
		log.Info("metrics have the kernel's telemetry", zap.String("pins", pins))
		_ = tel.Close()
	default:
		log.Info("metrics are without the kernel's telemetry", zap.String("reason", err.Error()))
	}
	return &telemetryMetrics{dir: pins, peers: make(map[kernelPeer]*kernelTotals)}
}

// Describe implements prometheus.Collector.
func (*telemetryMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{kernelPartDesc, kernelRTTDesc, kernelWaitDesc, kernelDropDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector. Without pins there is nothing.
func (m *telemetryMetrics) Collect(out chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.collect(out); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, ebpf.ErrPermission) && !errors.Is(err, ebpf.ErrNotSupported) {
		out <- prometheus.NewInvalidMetric(kernelPartDesc, err)
	}
}

func (m *telemetryMetrics) collect(out chan<- prometheus.Metric) error {
	t, err := ebpf.OpenTelemetry(m.dir)
	if err != nil {
		return err
	}
	defer t.Close()
	connections, err := t.SnapshotLocal()
	if err != nil {
		return err
	}
	for _, f := range t.Features() {
		out <- prometheus.MustNewConstMetric(kernelPartDesc, prometheus.GaugeValue, float64(one(f.Err == nil)), f.Name)
	}
	if drops, err := t.Drops(); err == nil {
		for _, d := range drops {
			out <- prometheus.MustNewConstMetric(kernelDropDesc, prometheus.CounterValue, float64(d.Packets), d.Reason)
		}
	}
	m.update(connections)
	for peer, totals := range m.peers {
		for desc, h := range map[*prometheus.Desc]*ebpf.Histogram{kernelRTTDesc: &totals.rtts, kernelWaitDesc: &totals.waits} {
			out <- prometheus.MustNewConstHistogram(desc, h.Count, h.Sum.Seconds(), cumulative(h), peer.local.String(), peer.remote.String())
		}
	}
	return nil
}

// update adds to each peer what has come since the last snapshot. Peers without a connection
// are forgotten.
func (m *telemetryMetrics) update(connections []ebpf.Connection) {
	next := make(map[kernelPeer]*kernelTotals)
	for i := range connections {
		c := &connections[i]
		peer := kernelPeer{c.Local.Addr(), c.Remote.Addr()}
		before := m.peers[peer]
		now := next[peer]
		if now == nil {
			if len(next) >= maxPathSeries {
				continue
			}
			now = &kernelTotals{seen: make(map[uint64]*ebpf.Connection)}
			if before != nil {
				now.rtts, now.waits = before.rtts, before.waits
			}
			next[peer] = now
		}
		now.seen[c.Cookie] = c
		rtts, waits := c.RTTs, c.Waits
		if before != nil {
			if o := before.seen[c.Cookie]; o != nil && c.Continues(o) { // if not, telemetry was loaded anew
				rtts, waits = rtts.Since(&o.RTTs), waits.Since(&o.Waits)
			}
		}
		now.rtts.Add(&rtts)
		now.waits.Add(&waits)
	}
	m.peers = next
}

// cumulative are the buckets of a histogram as Prometheus has them: from 2 µs to 34 s, each four
// times as long as the one before.
func cumulative(h *ebpf.Histogram) map[float64]uint64 {
	buckets := make(map[float64]uint64)
	var n uint64
	for i, in := range h.Buckets {
		n += in
		if i >= 10 && i <= 34 && i%2 == 0 {
			buckets[ebpf.HistogramBound(i).Seconds()] = n
		}
	}
	return buckets
}
