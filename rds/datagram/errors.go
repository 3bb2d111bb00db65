package datagram

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"syscall"

	"github.com/rds-go/rds/internal/errno"
)

// Errors a caller may branch on. Each is also the errno a Linux RDS socket
// gives: errors.Is finds both.
var (
	// ErrWouldBlock: a non-blocking call would have to wait: nothing to
	// receive, or the send buffer is full (EAGAIN).
	ErrWouldBlock error = &errno.Error{Text: "operation would block", Errno: syscall.EAGAIN}
	// ErrCongested: the destination port is congested (ENOBUFS).
	ErrCongested error = &errno.Error{Text: "destination port congested", Errno: syscall.ENOBUFS}
	// ErrMessageTooLong: more than 1 MiB, than the send buffer, or than the peer takes
	// (MessageTooLongError tells how much that is) (EMSGSIZE).
	ErrMessageTooLong error = &errno.Error{Text: "message too long", Errno: syscall.EMSGSIZE}
	// ErrNotConnected: no destination given and none set by Connect (ENOTCONN).
	ErrNotConnected error = &errno.Error{Text: "no destination", Errno: syscall.ENOTCONN}
	// ErrAddressInUse: the port is taken (EADDRINUSE).
	ErrAddressInUse error = &errno.Error{Text: "address already in use", Errno: syscall.EADDRINUSE}
	// ErrAddressNotAvailable: the address is not one of this host (EADDRNOTAVAIL).
	ErrAddressNotAvailable error = &errno.Error{Text: "cannot assign requested address", Errno: syscall.EADDRNOTAVAIL}
	// ErrInvalid: an argument RDS does not accept (EINVAL).
	ErrInvalid error = &errno.Error{Text: "invalid argument", Errno: syscall.EINVAL}
	// ErrNotSupported: not possible on this socket or transport (EOPNOTSUPP).
	ErrNotSupported error = &errno.Error{Text: "operation not supported", Errno: syscall.EOPNOTSUPP}
	// ErrNoTransport: this provider does not have the transport asked for
	// (ENOPROTOOPT).
	ErrNoTransport error = &errno.Error{Text: "transport not available", Errno: syscall.ENOPROTOOPT}
	// ErrBusy: memory that was to be out of use may still be in use (EBUSY).
	ErrBusy error = &errno.Error{Text: "memory may still be in use", Errno: syscall.EBUSY}
	// ErrPermission: the port is reserved for other users, or the peer is not on the
	// node's allow-list (EACCES).
	ErrPermission error = &errno.Error{Text: "permission denied", Errno: syscall.EACCES}
	// ErrTooMany: a limit of the daemon is reached (EMFILE).
	ErrTooMany error = &errno.Error{Text: "limit reached", Errno: syscall.EMFILE}
	// ErrQuota: the user's applications have all that one user may have: of peers,
	// addresses, sockets or shared memory (EDQUOT). Each comes back when sockets or
	// sessions end.
	ErrQuota error = &errno.Error{Text: "share of the user is used up", Errno: syscall.EDQUOT}
	// ErrDaemonLost: rdsd has ended, or has ended the session (ECONNRESET).
	// What was not acknowledged by then may or may not be delivered.
	ErrDaemonLost error = &errno.Error{Text: "rdsd has gone", Errno: syscall.ECONNRESET}
	// ErrNoDaemon: no rdsd answers at the path (ECONNREFUSED).
	ErrNoDaemon error = &errno.Error{Text: "no rdsd", Errno: syscall.ECONNREFUSED}
	// ErrNoKernel: the kernel has no RDS, or not for us (EAFNOSUPPORT).
	ErrNoKernel error = &errno.Error{Text: "the kernel has no RDS (AF_RDS)", Errno: syscall.EAFNOSUPPORT}
)

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

// MessageTooLongError is the ErrMessageTooLong of a message that is longer than its peer takes. What the
// peer takes is known once there was a link to it; before that such a message ends with StatusTooLong.
type MessageTooLongError struct {
	Peer        netip.Addr
	Size, Limit int // bytes of payload: the message's, and what the peer takes
}

func (e *MessageTooLongError) Error() string {
	return fmt.Sprintf("%d bytes are more than the %d that %v takes: %v", e.Size, e.Limit, e.Peer, ErrMessageTooLong)
}

func (e *MessageTooLongError) Unwrap() error { return ErrMessageTooLong }

// DroppedError is what Close reports when its linger ended with messages that
// no peer had acknowledged.
type DroppedError struct {
	Messages int
	Bytes    int // bytes of payload
}

func (e *DroppedError) Error() string {
	return fmt.Sprintf("%d unacknowledged messages (%d bytes) dropped", e.Messages, e.Bytes)
}
