package main

import (
	"net/netip"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/rds"
	"github.com/rds-go/rds/transport"
)

// busy has something in every metric.
func busy() rds.Info {
	host := netip.MustParseAddr
	return rds.Info{
		Provider:  "node",
		Admission: &rds.AdmissionInfo{Kernel: &rds.KernelFilterInfo{Active: true, Hooks: []string{"sk_lookup"}, Prefixes: 12, Refused: 5301, Passed: 17}},
		Counters:  []transport.Counter{{Name: "send_queued", Value: 12}, {Name: "recv_rdma_bytes", Value: 0}},
		Sockets: []rds.SocketInfo{
			{SendQueued: 100, RecvQueued: 20, RecvMessages: 2, Congested: true},
			{SendQueued: 1, RecvQueued: 3, RecvMessages: 1},
		},
		Connections: []rds.ConnectionInfo{
			{Local: host("10.0.0.1"), Remote: host("10.0.0.2"), Connected: true, Queued: 4096, Path: []conn.PathInfo{{State: "up"}, {State: "up"}},
				TCP: []rds.PathTCP{{RTT: 1500, MinRTT: 250, Retransmitted: 7, ReceiverLimited: 0.25}, {Path: 1, RTT: 2500}, {Path: 1, RTT: 9}}},
			{Local: host("10.0.0.1"), Remote: host("10.0.0.3"), Connecting: true, Queued: 4, Path: []conn.PathInfo{{State: "connecting"}}},
			{Local: host("10.0.0.1"), Remote: host("10.0.0.4"), Path: []conn.PathInfo{{State: "down"}}},
		},
		Waits: []rds.WaitInfo{
			{Cause: "unreachable", Remote: netip.MustParseAddrPort("10.0.0.3:1")}, {Cause: "unreachable", Remote: netip.MustParseAddrPort("10.0.0.3:2")}, {Cause: "budget"},
		},
		Memory: &rds.MemoryInfo{
			Pools: []rds.MemoryPoolInfo{{Name: "small", Live: 1, Dirty: 2, Clean: 3, Resting: 4, Pinned: 5000, Full: 6}}, Stale: 1, Invalidations: 7, Batches: 8, StuckReaders: 9, Refused: 10,
			BadKeys: []rds.BadKeysInfo{{Reason: "mr: no such region", Count: 11}},
		},
		Sessions: []rds.SessionInfo{
			{ID: 1, PID: 10, UID: 1001, Command: "oracle", Sockets: 2, SendQueued: 100, SendBudget: 1000, ReceiveArena: 2000, ReceiveLent: 30,
				Waiting: 1, Queue: 2, Backlog: 300, NotReady: true, SentMessages: 5, SentBytes: 500, RecvMessages: 6, RecvBytes: 600, Stalled: 7, CongestionBlocked: 8, CongestionErrors: 9, QueueFull: 10},
			{ID: 2, PID: 11, UID: 1001, Command: "oracle", Sockets: 1, SendQueued: 1, SendBudget: 1000, ReceiveArena: 2000, ReceiveLent: 3,
				Waiting: 2, Queue: 3, Backlog: 4, SentMessages: 10, SentBytes: 20, RecvMessages: 30, RecvBytes: 40, Stalled: 50},
			{ID: 3, PID: 12, UID: 0, Command: "bad\xffname", SentMessages: 1},
		},
	}
}

func constant(info rds.Info) func() (rds.Info, error) {
	return func() (rds.Info, error) { return info, nil }
}
