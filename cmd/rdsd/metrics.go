package main

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/rds"
)

// collector shows snapshots of the daemon to Prometheus: the counters of
// rdsinfo -c as rds_<name>_total, gauges, and the applications that share a
// command and a user as one.
type collector struct {
	info func() (rds.Info, error)

	mu   sync.Mutex // guards apps, and has snapshots seen in the order in which they were made
	apps applications
}

// peersOf is the sizes of the tables of peers; zeros if the snapshot has none.
func peersOf(i *rds.Info) rds.PeersInfo {
	if i.Peers == nil {
		return rds.PeersInfo{}
	}
	return *i.Peers
}

// gauge is one number of a snapshot.
type gauge struct {
	desc  *prometheus.Desc
	value func(*rds.Info) float64
}

func newGauge(name, help string, value func(*rds.Info) int) gauge {
	return gauge{prometheus.NewDesc(name, help, nil, nil), func(i *rds.Info) float64 { return float64(value(i)) }}
}

var gauges = []gauge{
	newGauge("rds_peers", "Peers with a connection, or that applications here talk to.", func(i *rds.Info) int { return peersOf(i).Peers }),
	newGauge("rds_strangers", "Peers with a connection that have proved nothing.", func(i *rds.Info) int { return peersOf(i).Strangers }),
	newGauge("rds_receive_sequences", "Receive sequences kept of peers.", func(i *rds.Info) int { return peersOf(i).Sequences }),
	newGauge("rds_sessions", "Applications attached.", func(i *rds.Info) int { return len(i.Sessions) }),
	newGauge("rds_sockets", "Sockets bound.", func(i *rds.Info) int { return len(i.Sockets) }),
	newGauge("rds_sockets_congested", "Sockets whose receive buffer is full, so that peers must not send to them.",
		func(i *rds.Info) int { return sum(i.Sockets, func(s *rds.SocketInfo) int { return one(s.Congested) }) }),
	newGauge("rds_socket_send_queued_bytes", "Payload that sockets have queued or unacknowledged.",
		func(i *rds.Info) int { return sum(i.Sockets, func(s *rds.SocketInfo) int { return s.SendQueued }) }),
	newGauge("rds_socket_receive_queued_bytes", "Payload that waits for applications to receive it.",
		func(i *rds.Info) int { return sum(i.Sockets, func(s *rds.SocketInfo) int { return s.RecvQueued }) }),
	newGauge("rds_socket_receive_queued_messages", "Messages that wait for applications to receive them.",
		func(i *rds.Info) int { return sum(i.Sockets, func(s *rds.SocketInfo) int { return s.RecvMessages }) }),
	newGauge("rds_peer_queued_bytes", "Memory of the messages queued for peers or unacknowledged by them.",
		func(i *rds.Info) int {
			return sum(i.Connections, func(c *rds.ConnectionInfo) int { return c.Queued })
		}),
	newGauge("rds_paths", "Paths of all connections.",
		func(i *rds.Info) int {
			return sum(i.Connections, func(c *rds.ConnectionInfo) int { return len(c.Path) })
		}),
	newGauge("rds_paths_up", "Paths that carry messages.", func(i *rds.Info) int {
		return sum(i.Connections, func(c *rds.ConnectionInfo) int {
			return sum(c.Path, func(p *conn.PathInfo) int { return one(p.State == conn.Up.String()) })
		})
	}),
	newGauge("rds_receive_arena_bytes", "Shared memory of applications for what they receive.",
		func(i *rds.Info) int { return sum(i.Sessions, func(s *rds.SessionInfo) int { return s.ReceiveArena }) }),
	newGauge("rds_receive_arena_lent_bytes", "Of that memory, what holds messages.",
		func(i *rds.Info) int { return sum(i.Sessions, func(s *rds.SessionInfo) int { return s.ReceiveLent }) }),
}

var connectionsDesc = prometheus.NewDesc("rds_connections", "Connections to other hosts, by their state.", []string{"state"}, nil)

func newCollector(info func() (rds.Info, error)) *collector { return &collector{info: info} }

// Describe implements prometheus.Collector. A node's counters are always the
// same ones.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, g := range gauges {
		out <- g.desc
	}
	out <- connectionsDesc
	out <- waitsDesc
	for _, m := range pathMetrics {
		out <- m.desc
	}
	for _, m := range appMetrics {
		out <- m.desc
	}
	for _, d := range slices.Concat(memoryDescs, filterDescs) {
		out <- d
	}
	info, err := c.info()
	if err != nil {
		return
	}
	for _, n := range info.Counters {
		out <- counterDesc(n.Name)
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	info, err := c.info()
	if err != nil {
		out <- prometheus.NewInvalidMetric(connectionsDesc, err)
		return
	}
	for _, n := range info.Counters {
		out <- prometheus.MustNewConstMetric(counterDesc(n.Name), prometheus.CounterValue, float64(n.Value))
	}
	for _, g := range gauges {
		out <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, g.value(&info))
	}
	for state, n := range states(info.Connections) {
		out <- prometheus.MustNewConstMetric(connectionsDesc, prometheus.GaugeValue, float64(n), state)
	}
	collectPaths(out, info.Connections)
	collectWaits(out, info.Waits)
	collectMemory(out, info.Memory)
	collectFilter(out, info.Admission)
	c.apps.update(info.Sessions)
	c.apps.collect(out)
}

// states counts connections. Every state is there, so that none disappears.
func states(connections []rds.ConnectionInfo) map[string]int {
	n := map[string]int{"up": 0, "connecting": 0, "down": 0}
	for i := range connections {
		switch c := &connections[i]; {
		case c.Connected:
			n["up"]++
		case c.Connecting:
			n["connecting"]++
		default:
			n["down"]++
		}
	}
	return n
}

func counterDesc(name string) *prometheus.Desc {
	return prometheus.NewDesc("rds_"+name+"_total", "Counter "+name+" of the node, as in rdsinfo -c.", nil, nil)
}

func sum[T any](of []T, value func(*T) int) (total int) {
	for i := range of {
		total += value(&of[i])
	}
	return total
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}
