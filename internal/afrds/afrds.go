package afrds

import (
	"errors"
	"net/netip"
)

// ErrNotAvailable says that this system has no AF_RDS sockets.
var ErrNotAvailable = errors.New("afrds: no AF_RDS sockets on this system")

// notAvailableError joins ErrNotAvailable and what the system call said.
type notAvailableError struct{ cause error }

func (e *notAvailableError) Error() string   { return ErrNotAvailable.Error() + ": " + e.cause.Error() }
func (e *notAvailableError) Unwrap() []error { return []error{ErrNotAvailable, e.cause} }

// Flags for SendTo and RecvFrom, and in Received.Flags. The kernel refuses
// others on send with EOPNOTSUPP.
const (
	MsgPeek     = 0x02 // leave the message queued
	MsgTrunc    = 0x20 // report the whole length of a message that does not fit
	MsgDontWait = 0x40 // EAGAIN or ENOBUFS instead of waiting
)

// Poll conditions (net/rds/af_rds.c, rds_poll).
const (
	PollIn        = 0x001 // a message, a notification or congestion news
	PollOut       = 0x004 // the send buffer has room; says nothing of congestion
	PollErr       = 0x008
	PollWriteBand = 0x200 // a congestion map arrived; without a monitor only
)

// Transports for SetTransport.
const (
	TransportNone = -1
	TransportIB   = 0
	TransportTCP  = 2
)

// Received is what one receive call brought.
type Received struct {
	// N is the number of bytes put into the buffer; with MsgTrunc the length
	// of the message.
	N int
	// From is the sender, IPv4 unmapped. It is the zero value when the call
	// brought no message but control information alone.
	From netip.AddrPort
	// Truncated: the buffer was too small, the rest of the message is lost.
	Truncated bool
	// Flags is msg_flags as the kernel left it.
	Flags int
	// Control is what came in control messages.
	Control Control
}

// IsMessage tells an empty message from a call that brought none.
func (r *Received) IsMessage() bool { return r.From.IsValid() }
