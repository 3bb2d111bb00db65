package transport

import "time"

// TCPInfo is what the kernel knows of a link's TCP connection (TCP_INFO, tcp(7)). Of a
// kernel that lacks a field the field is 0.
type TCPInfo struct {
	RTT    time.Duration // smoothed round-trip time
	RTTVar time.Duration // mean deviation of RTT
	MinRTT time.Duration // the shortest round-trip time of the last minutes
	RTO    time.Duration // retransmission timeout

	Cwnd          uint32 // congestion window, in segments
	MSS           uint32 // bytes of payload in a segment that we send
	Unacked       uint32 // segments sent and not acknowledged
	Retransmitted uint32 // segments sent again, in the life of the connection
	Retransmits   uint8  // timeouts in a row of the oldest segment
	Probes        uint8  // probes of a closed window that nothing has answered

	NotSent      uint32 // bytes written to the socket and never sent
	SendWindow   uint32 // bytes that the peer would take now; 0 before Linux 6.2
	DeliveryRate uint64 // bytes a second that the peer acknowledges

	LastDataSent time.Duration // time since data was sent
	LastAckRecv  time.Duration // time since the peer's TCP has acknowledged or answered something

	// Busy is how long data was outstanding, in the life of the connection. During
	// ReceiveLimited of it the peer's window was full, during SendLimited our send buffer.
	Busy, ReceiveLimited, SendLimited time.Duration
}
