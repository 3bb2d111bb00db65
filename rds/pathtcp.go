package rds

import (
	"fmt"

	"github.com/rds-go/rds/transport"
)

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

// pathTCP asks the kernel about a path's link.
func pathTCP(path int, l transport.Link) (p PathTCP, ok bool) {
	i, ok := l.TCPInfo()
	if !ok {
		return p, false
	}
	p = PathTCP{
		Path: path, RTT: i.RTT.Microseconds(), RTTVar: i.RTTVar.Microseconds(), MinRTT: i.MinRTT.Microseconds(), RTO: i.RTO.Microseconds(),
		Cwnd: i.Cwnd, MSS: i.MSS, Unacked: i.Unacked, Retransmitted: i.Retransmitted, Timeouts: i.Retransmits, Probes: i.Probes,
		NotSent: i.NotSent, SendWindow: i.SendWindow, DeliveryRate: i.DeliveryRate, LastAck: i.LastAckRecv.Microseconds(), Busy: i.Busy.Microseconds(),
	}
	if i.Busy > 0 {
		p.ReceiverLimited, p.SendBufferLimited = min(1, i.ReceiveLimited.Seconds()/i.Busy.Seconds()), min(1, i.SendLimited.Seconds()/i.Busy.Seconds())
	}
	return p, true
}

// stalled says in words why nothing is acknowledged, as far as TCP tells.
func (p *PathTCP) stalled() string {
	switch {
	case p.Timeouts > 0:
		return fmt.Sprintf("%d retransmissions in a row: packets are lost, or the peer's host is gone", p.Timeouts)
	case p.Probes > 0, p.NotSent > 0 && p.SendWindow < p.MSS:
		return "the peer's TCP window is closed: its RDS does not read"
	}
	return "the peer's TCP has everything, its RDS does not answer"
}
