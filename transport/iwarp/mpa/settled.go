package mpa

import "math/bits"

// Settled is what the two sides of a connection have agreed on.
type Settled struct {
	Rev            uint8 // revision of the Reply
	CRC            bool  // both directions have a CRC
	SendMarkers    bool  // the peer wants markers in what this side sends
	ReceiveMarkers bool  // this side wants markers in what it receives

	// IRD and ORD are the RDMA Reads to hold, and those to have under way at
	// most. What was not negotiated, by NotNegotiated or by revision 1, is as
	// in Params.
	IRD, ORD int

	PeerToPeer bool
	// RTR is the kind that the initiator must send before all else, and the
	// kinds that the responder has offered, though it takes any FPDU for one.
	// It is empty in the client-server model.
	RTR RTR

	Enhanced    bool   // Peer has been exchanged
	Peer        Prefix // the peer's IRD and ORD, as they came
	PeerPrivate []byte // the upper layer's part
	Sealed      bool   // the peer's frame had a seal, which is in order
}

// ReadSlots returns for how many RDMA Reads to be ready: siw rounds the IRD
// that it is told up to a power of two and uses it to the full.
func (s *Settled) ReadSlots() int {
	if s.IRD == 0 {
		return 0
	}
	return 1 << bits.Len(uint(s.IRD-1))
}

// RejectedError is the answer of a responder that refused. The connection is to
// be closed. errors.Is finds ErrRejected and ECONNREFUSED in it.
type RejectedError struct {
	Rev      uint8
	Enhanced bool
	Peer     Prefix // if Enhanced: the IRD and ORD that the responder would have needed
	Private  []byte // the upper layer's reason
}

// Error says that the peer has refused.
func (e *RejectedError) Error() string { return ErrRejected.Error() }

// Unwrap returns ErrRejected.
func (e *RejectedError) Unwrap() error { return ErrRejected }
