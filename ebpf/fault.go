package ebpf

import (
	"net/netip"
	"time"
)

// Limits of what a rule of a [Fault] does.
const (
	DefaultFaultTime = 10 * time.Second // time of a rule that says none
	MaxFaultTime     = time.Hour
	MaxFaultDelay    = 10 * time.Second
	MaxFaultRules    = 16 // rules of one Fault at the same time
)

// FaultOptions say where faults are made.
type FaultOptions struct {
	// Netns is the file of a network namespace, such as /run/netns/blue; "" is that of the
	// caller.
	Netns string
	// Interface is the name of the interface whose packets have the faults, such as eth0.
	// Without one nothing is loaded into the kernel, and only Abort works.
	Interface string
}

// FaultDirection is the direction of packets.
type FaultDirection uint8

// Directions of packets, as the host sees it that has the interface. On a loopback interface
// each packet goes out and comes in: faults of both directions are made once, on the way out.
const (
	FaultBoth FaultDirection = iota
	FaultIn
	FaultOut
)

// FaultMatch chooses TCP connections. The zero value chooses those of RDS. Of fragments only
// the first is matched, which has the ports.
type FaultMatch struct {
	// Local and Remote are the ends of the connections, as the host sees it that has the
	// interface; on a loopback interface either may be local. An address that is not valid
	// matches any, and so does port 0. Zones of addresses are not looked at.
	Local, Remote netip.AddrPort
	// Ports are TCP ports of which one end has one, at most MaxPorts. Nil is those of RDS, 16385 and
	// 18634, or any where Local or Remote has a port.
	Ports []uint16
	// Direction is that of the packets; Abort does not look at it.
	Direction FaultDirection
}

// FaultLimits say how often a fault is made and when it ends, whichever limit comes first.
type FaultLimits struct {
	// Rate is the share of packets, above 0 and up to 1; the zero value is 1, each packet.
	// Where the kernel hands over a burst of packets as one (segmentation offload, up to 64
	// KiB), each packet of it has this chance of being dropped, doubled or delayed, but all of
	// them share it; of those that are corrupted one is. Where each packet must have its own
	// luck, the interface must have no such bursts: ip link set dev eth0 gso_max_segs 1.
	Rate float64
	// Count is the number of packets after which it ends; 0 is any number. The last burst
	// may exceed it.
	Count uint64
	// For is the time after which it ends, at most MaxFaultTime; 0 is DefaultFaultTime.
	For time.Duration
}

// FaultCounts are what the kernel has counted for a rule. A burst counts as its packets.
type FaultCounts struct {
	Seen  uint64 `json:"seen"`  // packets that matched, while the rule was there; of a corruption those with a payload
	Hit   uint64 `json:"hit"`   // packets that got the fault
	Bytes uint64 `json:"bytes"` // octets of the bursts with these, headers included
}

var (
	faultPackets = &feature{name: "faults by tcx", kernel: "6.6", capabilities: "CAP_BPF and CAP_NET_ADMIN", probe: probeFault}
	faultDelay   = &feature{name: "delay by the qdisc fq", capabilities: "CAP_BPF and CAP_NET_ADMIN"}
	faultAbort   = &feature{name: "abort by SOCK_DESTROY", kernel: "4.5 with CONFIG_INET_DIAG_DESTROY", capabilities: "CAP_NET_ADMIN", probe: probeAbort}
)

func faultFeatures() []*feature { return []*feature{faultPackets, faultAbort} }
