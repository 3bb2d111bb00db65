package ebpf

import (
	"net/netip"
	"time"
)

// TelemetryOptions are the options of [LoadTelemetry].
type TelemetryOptions struct {
	// Dir is the directory of the BPF file system to pin in, such as /sys/fs/bpf/rds; it is made
	// if it does not exist, its parent is there. Empty: what is loaded ends with Close or with
	// the process.
	Dir string
	// Ports are the TCP ports of the connections to measure, at either end: at most 8. None is
	// those of RDS over TCP and of RDS on XRC, 16385 and 18634.
	Ports []uint16
	// Group is the gid of the processes that may open the pins, besides those with
	// CAP_DAC_OVERRIDE. The zero value is root's group. The directories above Dir must let them
	// through.
	Group int

	missing []string // programs that are taken not to be supported; tests set it
}

// Connection is a TCP connection as the kernel sees it.
type Connection struct {
	Local  netip.AddrPort `json:"local"`
	Remote netip.AddrPort `json:"remote"`
	State  string         `json:"state"` // such as "established"
	Netns  uint32         `json:"netns"` // inode of the network namespace, as in /proc/PID/ns/net
	UID    uint32         `json:"uid"`   // user who made the socket
	Inode  uint64         `json:"inode"` // of the socket, as in /proc/PID/fd; 0 if the program has closed it

	RTT          time.Duration `json:"rtt_ns"`     // smoothed round-trip time
	MinRTT       time.Duration `json:"min_rtt_ns"` // shortest one of the last minutes
	Cwnd         uint32        `json:"cwnd"`       // congestion window, in segments
	Retransmits  uint32        `json:"retransmits"`
	Acked        uint64        `json:"acked_bytes"`         // sent, and acknowledged by the other end
	Received     uint64        `json:"received_bytes"`      // in order
	ReceiveQueue uint32        `json:"receive_queue_bytes"` // received, and not read yet
	Unacked      uint32        `json:"unacked_bytes"`       // sent, and not acknowledged yet
	Unsent       uint32        `json:"unsent_bytes"`        // written, and not sent yet

	// Timed is whether round trips are counted: those since telemetry was loaded.
	Timed bool `json:"timed"`
	// RTTs are the round-trip times that TCP has measured.
	RTTs Histogram `json:"rtts"`
	// Waits are times that data has waited to be read, from its arrival to the end of its
	// reading. One arrival is timed after the other, not each: what comes while one is timed is
	// not.
	Waits Histogram `json:"waits"`
}

// Drop is how many packets were dropped for one reason.
type Drop struct {
	Reason  string `json:"reason"` // as the kernel names it, such as "TCP_CSUM"
	Packets uint64 `json:"packets"`
}

// Continues tells whether a connection of a snapshot is one of an earlier snapshot, with the same
// namespace and addresses: what the earlier one counted is then part of what this one has. A
// socket has no inode before the program accepts it, and when the program has closed it.
func (c *Connection) Continues(before *Connection) bool {
	return (c.Inode == before.Inode || c.Inode == 0 || before.Inode == 0) && before.RTTs.Count <= c.RTTs.Count && before.Waits.Count <= c.Waits.Count
}

// Parts of telemetry. Each of them is there or not by itself; only without the first one there
// is nothing.
var (
	telemetryConnections = &feature{name: "telemetry of connections", kernel: "5.11",
		capabilities: "CAP_BPF and CAP_PERFMON"}
	telemetryRTT = &feature{name: "telemetry of round trips", kernel: "5.11",
		capabilities: "CAP_BPF and CAP_NET_ADMIN"}
	telemetryWait = &feature{name: "telemetry of the receive queue", kernel: "6.3",
		capabilities: "CAP_BPF and CAP_PERFMON"}
	telemetryDrops = &feature{name: "telemetry of drops", kernel: "5.17",
		capabilities: "CAP_BPF and CAP_PERFMON"}
	telemetryOlder = &feature{name: "telemetry of round trips of older connections", kernel: "6.12",
		capabilities: "CAP_BPF and CAP_PERFMON"}
)
