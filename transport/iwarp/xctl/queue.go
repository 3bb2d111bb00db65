package xctl

import (
	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// SRQN is the number of a shared receive queue, 24 bits, as verbs have it.
// 0 and 0xFFFFFF are no queues.
type SRQN uint32

// MaxSRQN is the highest number of a shared receive queue.
const MaxSRQN SRQN = 0xFFFFFE

// Valid reports whether a shared receive queue may have the number.
func (n SRQN) Valid() bool { return n-1 < MaxSRQN }

// QN is the DDP queue that carries the messages for the shared receive queue.
// The number must be valid.
func (n SRQN) QN() uint32 { return queueBase | uint32(n) }

// DDP queue numbers of the extension. RFC 5040 section 5.1 and RFC 7306 section
// 10.2 assign 0 to 3; IANA goes on from 4, far below these.
const (
	queueBase = 0x58000000
	queueMask = 0xFF000000

	// Control is the queue of the control messages.
	Control uint32 = 0x58FFFFFF
)

// SRQOf is the shared receive queue that a DDP queue number names. It is not ok
// for the queues of the RFCs, for Control, and for all other numbers.
func SRQOf(qn uint32) (n SRQN, ok bool) {
	n = SRQN(qn &^ queueMask)
	return n, qn&queueMask == queueBase && n.Valid()
}

// Route is where an untagged message goes.
type Route uint8

// The routes.
const (
	RouteRFC     Route = iota // one of the four queues of the RFCs
	RouteSRQ                  // the shared receive queue that SRQOf tells
	RouteControl              // Control
)

// RouteOf completes what rdmap.Segment.Parse leaves to the caller where private
// messages are taken: Sends and immediate data may name a shared receive queue,
// private messages go to Control and nothing else does, and no other number is
// a queue (ddp.ErrInvalidQN).
func RouteOf(op rdmap.Op, qn uint32) (Route, error) {
	if qn < rdmap.Queues && op != rdmap.OpPrivate {
		return RouteRFC, nil
	}
	if (qn == Control) != (op == rdmap.OpPrivate) {
		return 0, ddp.ErrInvalidQN
	}
	if qn == Control {
		return RouteControl, nil
	}
	if _, ok := SRQOf(qn); !ok {
		return 0, ddp.ErrInvalidQN
	}
	return RouteSRQ, nil
}

// after reports whether a is behind b in the order of message numbers, which
// wrap: RFC 1982 section 3.2.
func after(a, b uint32) bool { return int32(a-b) > 0 }

// latest is the later one of two message numbers.
func latest(a, b uint32) uint32 {
	if after(a, b) {
		return a
	}
	return b
}
