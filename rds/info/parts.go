package info

import (
	"net/netip"
	"time"
)

// User is what the applications of one user have of the user's shares.
type User struct {
	UID        uint32 `json:"uid"`
	Sessions   int    `json:"sessions"`
	Sockets    int    `json:"sockets"`     // open and lingering sockets
	Addresses  int    `json:"addresses"`   // addresses that the user's sockets are bound to
	Peers      int    `json:"peers"`       // connections that the user's applications use
	Memory     int64  `json:"memory"`      // bytes of shared memory that were touched
	OverMemory bool   `json:"over_memory"` // the share of memory is used up
}

// Memory is what a node's table of memory regions has and did: mr.Stats of the
// transport that carries RDMA.
type Memory struct {
	Pools         []MemoryPool          `json:"pools"`
	Stale         int64                 `json:"stale"`            // regions whose invalidation is held up by a stuck reader
	Invalidations uint64                `json:"invalidations"`    // regions invalidated
	Batches       uint64                `json:"batches"`          // grace periods that covered them
	LargestBatch  uint64                `json:"largest_batch"`    // regions in one batch
	StuckReaders  uint64                `json:"stuck_readers"`    // invalidations that waited too long for a reader
	Refused       uint64                `json:"refused"`          // requests over a limit of pinned bytes of an application or a user
	BadKeys       []BadKeys             `json:"bad_keys"`         // requests of peers that were refused, by reason
	Offenders     map[netip.Addr]uint64 `json:"offenders"`        // refused requests by peer; peers beyond the table's room have no address and count together
	BatchSize     []uint64              `json:"batch_size"`       // batches by size: element i those of at least 1<<(i-1) and less than 1<<i regions
	GraceTime     []uint64              `json:"grace_time_usec"`  // batches by duration in microseconds, with the same bounds as BatchSize
	GraceTotal    uint64                `json:"grace_total_nsec"` // duration of all batches together
}

// MemoryPool is one class of regions.
type MemoryPool struct {
	Name    string `json:"name"`    // "small", "large" or "registered"
	Live    int    `json:"live"`    // keys that work
	Dirty   int    `json:"dirty"`   // freed, not yet invalid
	Clean   int    `json:"clean"`   // bases ready for reuse
	Resting int    `json:"resting"` // bases in quarantine
	Pinned  int64  `json:"pinned"`  // bytes of live and dirty regions
	Full    uint64 `json:"full"`    // requests that found a limit reached
}

// BadKeys counts requests that were refused for one reason.
type BadKeys struct {
	Reason string `json:"reason"`
	Count  uint64 `json:"count"`
}

// Admission is a node's allow-list, and what it has kept out.
type Admission struct {
	Allow    []netip.Prefix `json:"allow"`              // config.Admission.Allow; empty: everybody
	Rejected uint64         `json:"rejected"`           // connections that were reset
	Prefixes []Rejected     `json:"prefixes,omitempty"` // networks of rejected peers, the most connections first; at most 1,024
	Others   uint64         `json:"others,omitempty"`   // part of Rejected of prefixes that are not in Prefixes any more

	Kernel *KernelFilter `json:"kernel,omitempty"` // rdsd's filter in the kernel; nil: unknown
}

// KernelFilter is the filter in the kernel that turns strangers away before TCP answers
// them. A node does not fill it in: the program does that has the filter, such as rdsd.
type KernelFilter struct {
	Active   bool     `json:"active"`             // the filter is there, and has the node's list
	Why      string   `json:"why,omitempty"`      // reason why it is not
	Deny     string   `json:"deny,omitempty"`     // what strangers get: "silent" or "refuse"
	Hooks    []string `json:"hooks,omitempty"`    // where its programs are, such as "tcx on eth0"
	Ports    []uint16 `json:"ports,omitempty"`    // TCP ports that are filtered
	Prefixes int      `json:"prefixes,omitempty"` // length of its list; 0: everybody may connect
	Passed   uint64   `json:"passed,omitempty"`   // attempts to connect, since the filter was loaded
	Refused  uint64   `json:"refused,omitempty"`  // attempts of strangers
}

// Rejected counts the connections that were reset of one neighbourhood.
type Rejected struct {
	Prefix netip.Prefix `json:"prefix"` // a /24 of IPv4 or a /64 of IPv6
	Count  uint64       `json:"count"`
	Last   time.Time    `json:"last,omitzero"`
}

// PathTCP is what the kernel knows of the TCP connection of a path (TCP_INFO). Times are in
// microseconds. Of a kernel that lacks a field the field is 0.
type PathTCP struct {
	Path          int    `json:"path"`
	RTT           int64  `json:"rtt_us"`                 // smoothed round-trip time
	RTTVar        int64  `json:"rtt_var_us"`             // mean deviation of rtt_us
	MinRTT        int64  `json:"min_rtt_us"`             // shortest round-trip time of the last minutes
	RTO           int64  `json:"rto_us"`                 // retransmission timeout
	Cwnd          uint32 `json:"cwnd_segments"`          // congestion window
	MSS           uint32 `json:"mss"`                    // segment size in bytes
	Unacked       uint32 `json:"unacked_segments"`       // segments sent and not acknowledged
	Retransmitted uint32 `json:"retransmitted_segments"` // segments retransmitted since the connection began
	Timeouts      uint8  `json:"timeouts"`               // timeouts of the oldest segment in a row
	Probes        uint8  `json:"window_probes"`          // probes of a closed window that nothing has answered
	NotSent       uint32 `json:"not_sent_bytes"`         // written to the socket and never sent
	SendWindow    uint32 `json:"send_window_bytes"`      // bytes that the peer would take now
	DeliveryRate  uint64 `json:"delivery_rate"`          // bytes a second that the peer acknowledges
	LastAck       int64  `json:"last_ack_us"`            // microseconds since the peer's TCP acknowledged or answered something
	Busy          int64  `json:"busy_us"`                // microseconds with data outstanding since the connection began

	// ReceiverLimited and SendBufferLimited are the shares of Busy, 0 to 1, during which
	// the peer's window was full, or our send buffer.
	ReceiverLimited   float64 `json:"receiver_limited"`
	SendBufferLimited float64 `json:"send_buffer_limited"`
}
