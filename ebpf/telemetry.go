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
	// Ports are the TCP ports of the connections to measure, at either end: at most MaxPorts. None is
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
	// Inode is the socket's, as in /proc/PID/fd; 0 before the program accepts the connection, and
	// when the program has closed it.
	Inode uint64 `json:"inode"`
	// Cookie is the socket's, as of SO_COOKIE: no two sockets have the same one until the host is
	// started again.
	Cookie uint64 `json:"cookie"`

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

// Continues tells whether a connection of a snapshot is the given one of an earlier snapshot: what
// was counted then is part of what c has. If telemetry was loaded anew in between, it is not.
func (c *Connection) Continues(before *Connection) bool {
	return c.Cookie == before.Cookie && before.RTTs.Count <= c.RTTs.Count && before.Waits.Count <= c.Waits.Count
}

// Parts of telemetry. Each of them is there or not by itself; only without the first one there
// is nothing.
var (
	telemetryConnections = &feature{name: "telemetry of connections", kernel: "5.12",
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
