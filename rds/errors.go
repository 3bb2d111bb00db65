package rds

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"syscall"
)

// Errors a caller may branch on. Each is also the errno a Linux RDS socket
// gives: errors.Is finds both.
var (
	// ErrWouldBlock: a non-blocking call would have to wait: nothing to
	// receive, or the send buffer is full (EAGAIN).
	ErrWouldBlock error = &sentinel{"operation would block", syscall.EAGAIN}
	// ErrCongested: the destination port is congested (ENOBUFS).
	ErrCongested error = &sentinel{"destination port congested", syscall.ENOBUFS}
	// ErrMessageTooLong: more than 1 MiB, or more than the send buffer (EMSGSIZE).
	ErrMessageTooLong error = &sentinel{"message too long", syscall.EMSGSIZE}
	// ErrNotConnected: no destination given and none set by Connect (ENOTCONN).
	ErrNotConnected error = &sentinel{"no destination", syscall.ENOTCONN}
	// ErrAddressInUse: the port is taken (EADDRINUSE).
	ErrAddressInUse error = &sentinel{"address already in use", syscall.EADDRINUSE}
	// ErrAddressNotAvailable: the address is not one of this host (EADDRNOTAVAIL).
	ErrAddressNotAvailable error = &sentinel{"cannot assign requested address", syscall.EADDRNOTAVAIL}
	// ErrInvalid: an argument RDS does not accept (EINVAL).
	ErrInvalid error = &sentinel{"invalid argument", syscall.EINVAL}
	// ErrNotSupported: not possible on this socket or transport (EOPNOTSUPP).
	ErrNotSupported error = &sentinel{"operation not supported", syscall.EOPNOTSUPP}
	// ErrNoTransport: this provider does not have the transport asked for
	// (ENOPROTOOPT).
	ErrNoTransport error = &sentinel{"transport not available", syscall.ENOPROTOOPT}
	// ErrBusy: memory that was to be out of use may still be in use (EBUSY).
	ErrBusy error = &sentinel{"memory may still be in use", syscall.EBUSY}
	// ErrPermission: the port is reserved for other users, or the peer is not on the
	// node's allow-list (EACCES).
	ErrPermission error = &sentinel{"permission denied", syscall.EACCES}
	// ErrTooMany: a limit of the daemon is reached (EMFILE).
	ErrTooMany error = &sentinel{"limit reached", syscall.EMFILE}
	// ErrQuota: the user's applications have all that one user may have: of peers,
	// addresses, sockets or shared memory (EDQUOT). Each comes back when sockets or
	// sessions end.
	ErrQuota error = &sentinel{"share of the user is used up", syscall.EDQUOT}
	// ErrDaemonLost: rdsd has ended, or has ended the session (ECONNRESET).
	// What was not acknowledged by then may or may not be delivered.
	ErrDaemonLost error = &sentinel{"rdsd has gone", syscall.ECONNRESET}
	// ErrNoDaemon: no rdsd answers at the path (ECONNREFUSED).
	ErrNoDaemon error = &sentinel{"no rdsd", syscall.ECONNREFUSED}
	// ErrNoKernel: the kernel has no RDS, or not for us (EAFNOSUPPORT).
	ErrNoKernel error = &sentinel{"the kernel has no RDS (AF_RDS)", syscall.EAFNOSUPPORT}
)

type sentinel struct {
	text  string
	errno syscall.Errno
}

func (s *sentinel) Error() string   { return s.text }
func (s *sentinel) Unwrap() error   { return s.errno }
func (s *sentinel) Timeout() bool   { return false }
func (s *sentinel) Temporary() bool { return s.errno == syscall.EAGAIN || s.errno == syscall.ENOBUFS }

// OpError is the error of every Node and Socket method.
type OpError struct {
	Op    string         // "bind", "send", "receive", "close", ...
	Local netip.AddrPort // address of the socket; zero if it has none
	Peer  netip.AddrPort // destination; zero if none is concerned
	Err   error
}

func (e *OpError) Error() string {
	s := "rds: " + e.Op
	switch {
	case e.Local.IsValid():
		s += " " + e.Local.String()
	case e.Local.Port() != 0: // the port of the only address
		s += " :" + strconv.Itoa(int(e.Local.Port()))
	}
	if e.Peer.IsValid() {
		s += " to " + e.Peer.String()
	}
	return s + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *OpError) Unwrap() error { return e.Err }

// Timeout tells whether a deadline or a context's time ended the call.
func (e *OpError) Timeout() bool {
	return errors.Is(e.Err, os.ErrDeadlineExceeded) || errors.Is(e.Err, context.DeadlineExceeded)
}

// Temporary tells whether the call may succeed later.
func (e *OpError) Temporary() bool {
	return e.Timeout() || errors.Is(e.Err, syscall.EAGAIN) || errors.Is(e.Err, syscall.ENOBUFS)
}

// DroppedError is what Close reports when its linger ended with messages that
// no peer had acknowledged.
type DroppedError struct {
	Messages int
	Bytes    int // bytes of payload
}

func (e *DroppedError) Error() string {
	return fmt.Sprintf("%d unacknowledged messages (%d bytes) dropped", e.Messages, e.Bytes)
}
