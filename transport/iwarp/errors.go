package iwarp

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// Errors that callers tell apart.
var (
	// ErrClosed: the object was closed, or its device.
	ErrClosed = errors.New("iwarp: closed")
	// ErrRejected: the peer's program refused the connection (ECONNREFUSED).
	// RejectedError has what it said.
	ErrRejected = fmt.Errorf("iwarp: connection rejected by the peer: %w", syscall.ECONNREFUSED)
	// ErrNoReply: the peer's TCP took the connection, and its program has not answered
	// the request in time.
	ErrNoReply = errors.New("iwarp: the peer does not answer the request")
	// ErrQueueFull: no room for one more work request (ENOMEM).
	ErrQueueFull = fmt.Errorf("iwarp: work queue full: %w", syscall.ENOMEM)
	// ErrState: the queue pair's state does not allow it (EINVAL).
	ErrState = fmt.Errorf("iwarp: wrong state of the queue pair: %w", syscall.EINVAL)
	// ErrForeign: a key that the protection domain does not own (EINVAL).
	ErrForeign = fmt.Errorf("iwarp: key of another protection domain: %w", syscall.EINVAL)
	// ErrNotShared: the peer does not know shared receive queues (EOPNOTSUPP).
	ErrNotShared = fmt.Errorf("iwarp: the peer has no shared receive queues: %w", syscall.EOPNOTSUPP)
	// ErrSilent: the peer has said nothing for too long, and has not answered a
	// PING (SharedParams.Silence, ETIMEDOUT).
	ErrSilent = fmt.Errorf("iwarp: the peer is silent: %w", syscall.ETIMEDOUT)
	// ErrPeerClosed: the peer ended the connection without saying why.
	ErrPeerClosed = errors.New("iwarp: connection closed by the peer")
)

// TerminateError is what a Terminate message said, ours or the peer's (RFC 5040
// section 4.8).
type TerminateError struct {
	Cause  rdmap.Cause
	Remote bool // the peer found the error
	SIW    bool // the message was laid out as Linux's siw does it on little-endian hosts
}

func (e *TerminateError) Error() string {
	who := "sent"
	if e.Remote {
		who = "received"
	}
	return fmt.Sprintf("iwarp: terminate %s: %v", who, e.Cause)
}

// Unwrap gives the cause, so that errors.Is finds it.
func (e *TerminateError) Unwrap() error { return e.Cause }

// taggedCause is what a fault of a Write, or of a local sink that a response
// does not fit, is called in a Terminate. DDP has no code for a missing right;
// Linux's siw uses that of an invalid STag as well.
func taggedCause(f mr.Fault) rdmap.Cause {
	switch f {
	case mr.WrongDomain, mr.WrongPeer:
		return rdmap.CauseDDPNotAssociated
	case mr.Wrap:
		return rdmap.CauseDDPTOWrap
	case mr.OutOfBounds:
		return rdmap.CauseDDPBounds
	}
	return rdmap.CauseDDPInvalidSTag
}

// protectionCause is what a fault of a Read or an atomic is called (RFC 5040
// section 8.1; misalignment: RFC 7306 section 5.2).
func protectionCause(f mr.Fault) rdmap.Cause {
	switch f {
	case mr.WrongDomain, mr.WrongPeer:
		return rdmap.CauseNotAssociated
	case mr.NoRight:
		return rdmap.CauseAccess
	case mr.Wrap:
		return rdmap.CauseTOWrap
	case mr.OutOfBounds:
		return rdmap.CauseBounds
	case mr.Misaligned:
		return rdmap.CauseStreamCatastrophic
	}
	return rdmap.CauseInvalidSTag
}
