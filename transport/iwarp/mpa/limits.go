package mpa

import "time"

// Delays that a connection is to keep; RFC 5044 section 7.1.2 asks for them
// without numbers, these are Linux's siw's where it has one.
const (
	RequestTimeout = 5 * time.Second  // from the TCP connection to a whole Request
	DecideTimeout  = 30 * time.Second // from the Request to the upper layer's Accept or Reject
	ReplyTimeout   = 10 * time.Second // from the Request to a whole Reply
	RTRTimeout     = 10 * time.Second // from a peer-to-peer Reply to the RTR
	CloseTimeout   = 5 * time.Second  // from the own FIN to the peer's

	// GuardDelay is how long an initiator waits between the Reply and its
	// first FPDU: siw looks for FPDUs only after it has sent the Reply, and one
	// that was there before lies unread until more arrives.
	GuardDelay = 5 * time.Millisecond
	// KickDelay is how long an initiator waits for a sign of life after its
	// first FPDU before it sends an empty RDMA Write to wake such a peer, at
	// most MaxKicks times.
	KickDelay = 200 * time.Millisecond
	MaxKicks  = 3
)

// Sizes of the set-up frames.
const (
	FrameLen  = 20 // Request and Reply without private data, RFC 5044 section 7.1.1
	PrefixLen = 4  // the enhanced prefix of the private data, RFC 6581 section 9

	// MaxPrivate is the private data of a frame, prefix included.
	MaxPrivate = 512
	// MaxReplyPrivate is what our Replies carry of it: siw in the role of the
	// initiator takes no more, and its kernel does not survive much more.
	MaxReplyPrivate = 256
)

// Depths of RDMA Reads.
const (
	// MaxReads is the largest IRD or ORD that can be negotiated.
	MaxReads = 0x3FFE
	// NotNegotiated in the place of an IRD or ORD leaves it to the upper layer
	// (RFC 6581 section 9.1). It is understood and mirrored, never proposed.
	NotNegotiated = 0x3FFF
)

// Sizes of FPDUs, RFC 5044 section 4.
const (
	HeaderLen = 2 // ULPDU_Length
	CRCLen    = 4
	MarkerLen = 4
	// MarkerInterval is the distance of the markers of a stream, from the
	// start of one to the start of the next.
	MarkerInterval = 512

	// MaxULPDU is the longest ULPDU to send: a marker behind one still
	// reaches back to its start.
	MaxULPDU = 64768
	// MaxReceiveULPDU is what ULPDU_Length can say. It is accepted: siw sends
	// more than MaxULPDU on a loopback device.
	MaxReceiveULPDU = 65535
	// MaxFPDU is the longest FPDU without markers.
	MaxFPDU = HeaderLen + MaxReceiveULPDU + 3 + CRCLen

	// MinTagged and MinUntagged are the lengths of the two DDP headers (RFC
	// 5041 section 4), below which no ULPDU is.
	MinTagged   = 14
	MinUntagged = 18

	minMULPDU = 128
)
