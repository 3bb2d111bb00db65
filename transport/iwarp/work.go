package iwarp

import (
	"fmt"
	"time"

	"github.com/rds-go/rds/mr"
)

// MaxSGE is the most pieces of local memory a work request may name. An RDMA
// Read and an atomic take one: the wire has room for one sink.
const MaxSGE = 4

// Op says what a WorkRequest does, or what a Completion is of.
type Op uint8

// The operations. Their wire forms are those of RFC 5040 section 4 and RFC 7306.
const (
	OpSend           Op = iota // a message to the peer's receive queue
	OpSendInvalidate           // a message that also invalidates one of the peer's keys
	OpWrite                    // bytes into the peer's region
	OpRead                     // bytes from the peer's region
	OpFetchAdd                 // atomic add to a word of the peer's region, masked if AddMask is set
	OpCompareSwap              // atomic compare and swap, masked
	OpImmediate                // eight bytes to the peer's receive queue, as a message
	OpReceive                  // in completions only: a message has come
)

var opNames = [...]string{"send", "send-invalidate", "write", "read", "fetch-add", "compare-swap", "immediate", "receive"}

func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return fmt.Sprintf("op(%d)", uint8(o))
}

// Flags modify a WorkRequest.
type Flags uint8

// The flags of a WorkRequest, as IBV_SEND_*.
const (
	Signaled  Flags = 1 << iota // completes with an entry in the completion queue, also when it succeeds
	Solicited                   // the peer's completion wakes WaitSolicited too
	Fence                       // starts after all earlier reads and atomics of this queue pair are complete
)

// SGE is a piece of local registered memory: its key, the address of its first
// byte within the region's addresses, and its length.
type SGE struct {
	Key  mr.Key
	Addr uint64
	Len  uint32
}

// WorkRequest is one operation for PostSend. The queue pair copies it; what SGE
// names is the caller's again when the request completes.
type WorkRequest struct {
	ID     uint64 // returned in the completion
	Op     Op
	Flags  Flags
	SGE    []SGE  // memory sent (Send, Write), or written to (Read, atomics: one, of 8 bytes)
	Inline []byte // instead of SGE for Send and Write: copied by PostSend, at most QPConfig.MaxInline
	// Local, instead of SGE for Write, is memory that need not be registered, in at
	// most MaxSGE pieces. It is the queue pair's until the request completes, and so is
	// the slice.
	Local [][]byte

	// Queue, for Send, SendInvalidate and Immediate, is the peer's shared receive
	// queue that the message is for; 0 is its queue pair's own. The connection
	// must have SharedParams on both sides. Such a message completes when it is
	// delivered, independently of those to other queues; if it is refused only
	// this request fails.
	//
	// For Write, Read and atomics, where the peer has SharedParams.Protection, it is the queue
	// whose protection domain the key is of; addresses then have 40 bits. Other peers are
	// not told.
	Queue uint32
	// Offers, for a message with Queue, is how often the message is offered to a queue that has no
	// receive posted, before it fails (ReceiverNotReady): 0 is without end. A refusal of any
	// message to the queue counts for each that waits behind it. Again is how long the queue is
	// left alone after a refusal, and at least passes between two refusals that count.
	Offers uint8
	Again  time.Duration
	// Segment bounds the payload of the segments of a Send or Write; 0: only the connection does.
	Segment uint32
	// QP, for a message with Queue, is the number of the peer's queue pair that the message is for,
	// where both sides have SharedParams.Target: Completion.Target at the peer. Such a message
	// builds on 254 Writes at most. Other peers are not told.
	QP uint32
	// Writes, for a Send with Queue, says that the message builds on so many Writes
	// posted right before it: it is refused (RemoteAccess) if one of them failed, at
	// the peer or here.
	Writes uint32

	RemoteKey  mr.Key // Write, Read, atomics
	RemoteAddr uint64
	Invalidate mr.Key // SendInvalidate: the peer's key
	Immediate  uint64 // Immediate: sent as eight octets, big-endian

	// FetchAdd adds Add, in independent fields that end below the bits set in
	// AddMask (0: one field of 64 bits). CompareSwap compares the bits of
	// CompareMask and replaces those of SwapMask (RFC 7306 section 5).
	Add, AddMask         uint64
	Compare, CompareMask uint64
	Swap, SwapMask       uint64
}

// ReceiveRequest is memory for one message.
type ReceiveRequest struct {
	ID  uint64
	SGE []SGE // at most MaxSGE pieces; no piece is room for an empty message
}

// Status says how a work request ended; the values are those of ibv_wc_status.
type Status uint8

// The statuses. Every one but Success means that the queue pair is in StateError,
// except with shared receive queues, where most cost their own request only.
const (
	Success          Status = 0
	LocalLengthError Status = 1  // a message was longer than the receive request
	LocalQPError     Status = 2  // the request makes no sense here (a read with ORD 0)
	LocalProtection  Status = 4  // a local key, its domain, bounds or rights
	Flushed          Status = 5  // outstanding or posted when the queue pair was in error
	BadResponse      Status = 7  // the peer's response does not fit the request
	RemoteInvalid    Status = 9  // the peer does not do that, or the message was too long for it
	RemoteAccess     Status = 10 // a remote key, its domain, bounds or rights
	RemoteOperation  Status = 11 // the peer could not finish it
	RetryExceeded    Status = 12 // the peer's queue pair is gone, or does not answer; XRC initiators only
	ReceiverNotReady Status = 13 // the peer had no receive request
	RemoteInvalidRD  Status = 15 // the peer has no such shared receive queue
	GeneralError     Status = 21
	maxStatus               = 24
)

var statusNames = [maxStatus]string{
	Success: "success", LocalLengthError: "local length error", LocalQPError: "local QP operation error",
	LocalProtection: "local protection error", Flushed: "work request flushed", BadResponse: "bad response",
	RemoteInvalid: "remote invalid request", RemoteAccess: "remote access error",
	RemoteOperation: "remote operation error", RetryExceeded: "retry count exceeded", ReceiverNotReady: "receiver not ready", RemoteInvalidRD: "no such receive queue", GeneralError: "general error",
}

func (s Status) String() string {
	if int(s) < len(statusNames) && statusNames[s] != "" {
		return statusNames[s]
	}
	return fmt.Sprintf("status(%d)", uint8(s))
}

// Completion tells how a work request ended. Of one that failed only ID, QP, Initiator,
// Status and Vendor mean something.
type Completion struct {
	ID          uint64
	QP          *QP // nil if Initiator is set
	Status      Status
	Op          Op     // what completed; OpReceive for a message, OpImmediate for immediate data
	Solicited   bool   // receive: the sender asked for attention
	Queue       uint32 // the shared receive queue that a message went to, 0 if none
	Len         uint32 // bytes received or read
	Vendor      uint32 // more about an error: an rdmap.Cause from the peer, or an mr.Fault
	Invalidated mr.Key // receive: the key that the message invalidated, 0 if none
	// Serial numbers the messages of one connection to one shared queue. A receive
	// has its message's; a send that was Flushed has it if Sent, which says that the
	// peer may have got the message: under this number, if at all.
	Serial    uint32
	Sent      bool
	Target    uint32 // receive: queue pair of this side that the message was for (WorkRequest.QP), 0 if the peer names none
	Initiator uint32 // number of the XRC initiator that sent, across connections; 0: QP did, or a message was received
	Immediate uint64
}
