package socket

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/rds-go/rds/internal/errno"
	"github.com/rds-go/rds/rds/datagram"
)

// NotAllowedError is the ErrPermission of what concerns a peer that is not on the
// allow-list.
type NotAllowedError struct{ Peer netip.Addr }

func (e *NotAllowedError) Error() string {
	return e.Peer.String() + " is not on the allow-list: " + datagram.ErrPermission.Error()
}

func (e *NotAllowedError) Unwrap() error { return datagram.ErrPermission }

// UnservedError is the ErrNotSupported of an RDMA call to a peer whose transport carries
// no operations.
type UnservedError struct {
	Peer netip.Addr
	Wire string // the wire that serves the peer
	Why  string // why that wire serves the peer; may be empty
}

func (e *UnservedError) Error() string {
	s := e.Peer.String() + " is served by " + e.Wire
	if e.Why != "" {
		s += " (" + e.Why + ")"
	}
	return s + ", which carries no RDMA: " + datagram.ErrNotSupported.Error()
}

func (e *UnservedError) Unwrap() error { return datagram.ErrNotSupported }

// ByErrno are the errors of calls by errno.
var ByErrno = func() map[syscall.Errno]error {
	m := make(map[syscall.Errno]error)
	for _, e := range []error{
		datagram.ErrWouldBlock, datagram.ErrCongested, datagram.ErrMessageTooLong, datagram.ErrNotConnected, datagram.ErrAddressInUse, datagram.ErrAddressNotAvailable,
		datagram.ErrInvalid, datagram.ErrNotSupported, datagram.ErrNoTransport, datagram.ErrPermission, datagram.ErrTooMany, datagram.ErrQuota, datagram.ErrBusy, ErrDestination, ErrFault,
	} {
		m[e.(*errno.Error).Errno] = e
	}
	m[syscall.EBADF] = net.ErrClosed
	return m
}()

// RemoteError is the error of a call that the daemon refused.
func RemoteError(errno int, text string) error {
	e, ok := ByErrno[syscall.Errno(errno)]
	if !ok {
		return fmt.Errorf("%s: %w", text, syscall.Errno(errno))
	}
	if e.Error() == text {
		return e
	}
	return &ToldError{text, e}
}

// ToldError is one of our errors with the daemon's words.
type ToldError struct {
	Text string
	Err  error
}

func (e *ToldError) Error() string { return e.Text }

func (e *ToldError) Unwrap() error { return e.Err }

// ErrFault: memory of regions or operations is not that of AllocMemory.
var ErrFault error = &errno.Error{Text: "memory is not of AllocMemory", Errno: syscall.EFAULT}
