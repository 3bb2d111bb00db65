package main

import (
	"net/netip"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rds-go/rds/rds"
)

// maxPathSeries bounds the paths that have metrics of their own: hosts with more peers have
// those of the first ones, in the order of their addresses.
const maxPathSeries = 1024

// pathMetric is one number of a path's TCP connection. A counter of it begins at 0 with each
// connection, as that of a process does with each start.
type pathMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*rds.PathTCP) float64
}

func newPathMetric(name, help string, kind prometheus.ValueType, value func(*rds.PathTCP) float64) pathMetric {
	return pathMetric{prometheus.NewDesc("rds_path_"+name, help, []string{"local", "peer", "path"}, nil), kind, value}
}

var pathMetrics = []pathMetric{
	newPathMetric("rtt_seconds", "Smoothed round-trip time of the path's TCP connection.", prometheus.GaugeValue,
		func(p *rds.PathTCP) float64 { return float64(p.RTT) / 1e6 }),
	newPathMetric("min_rtt_seconds", "Shortest round-trip time of the last minutes.", prometheus.GaugeValue,
		func(p *rds.PathTCP) float64 { return float64(p.MinRTT) / 1e6 }),
	newPathMetric("retransmitted_segments_total", "Segments that TCP sent again.", prometheus.CounterValue,
		func(p *rds.PathTCP) float64 { return float64(p.Retransmitted) }),
	newPathMetric("cwnd_segments", "Congestion window.", prometheus.GaugeValue,
		func(p *rds.PathTCP) float64 { return float64(p.Cwnd) }),
	newPathMetric("delivery_rate_bytes", "Bytes a second that the peer acknowledges.", prometheus.GaugeValue,
		func(p *rds.PathTCP) float64 { return float64(p.DeliveryRate) }),
	newPathMetric("busy_seconds_total", "Time with data outstanding.", prometheus.CounterValue,
		func(p *rds.PathTCP) float64 { return float64(p.Busy) / 1e6 }),
	newPathMetric("receiver_limited_ratio", "Share of the busy time during which the peer's window was full.", prometheus.GaugeValue,
		func(p *rds.PathTCP) float64 { return p.ReceiverLimited }),
	newPathMetric("send_buffer_limited_ratio", "Share of the busy time during which our send buffer was full.", prometheus.GaugeValue,
		func(p *rds.PathTCP) float64 { return p.SendBufferLimited }),
}

var waitsDesc = prometheus.NewDesc("rds_waits", "What waits, as in rdsinfo why, by peer and cause.", []string{"peer", "cause"}, nil)

// collectPaths shows the TCP connections of paths.
func collectPaths(out chan<- prometheus.Metric, connections []rds.ConnectionInfo) {
	type series struct {
		local, peer netip.Addr
		path        int
	}
	seen := make(map[series]bool)
	for i := range connections {
		c := &connections[i]
		for k := range c.TCP {
			p := &c.TCP[k]
			s := series{c.Local, c.Remote, p.Path}
			if seen[s] || len(seen) >= maxPathSeries {
				continue
			}
			seen[s] = true
			for _, m := range pathMetrics {
				out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(p), c.Local.String(), c.Remote.String(), strconv.Itoa(p.Path))
			}
		}
	}
}

// collectWaits counts what waits. A cause without a peer has an empty one.
func collectWaits(out chan<- prometheus.Metric, waits []rds.WaitInfo) {
	type series struct{ peer, cause string }
	count := make(map[series]int)
	for i := range waits {
		s := series{cause: waits[i].Cause}
		if a := waits[i].Remote.Addr(); a.IsValid() {
			s.peer = a.String()
		}
		count[s]++
	}
	for s, n := range count {
		out <- prometheus.MustNewConstMetric(waitsDesc, prometheus.GaugeValue, float64(n), s.peer, s.cause)
	}
}
