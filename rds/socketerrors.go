package rds

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/rds-go/rds/internal/errno"
)

// notAllowedError is the ErrPermission of what concerns a peer that is not on the
// allow-list.
type notAllowedError struct{ peer netip.Addr }

func (e *notAllowedError) Error() string {
	return e.peer.String() + " is not on the allow-list: " + ErrPermission.Error()
}

func (e *notAllowedError) Unwrap() error { return ErrPermission }

// unservedError is the ErrNotSupported of an RDMA call to a peer whose transport carries
// no operations.
type unservedError struct {
	peer netip.Addr
	wire string // the wire that serves the peer
	why  string // why that wire serves the peer; may be empty
}

func (e *unservedError) Error() string {
	s := e.peer.String() + " is served by " + e.wire
	if e.why != "" {
		s += " (" + e.why + ")"
	}
	return s + ", which carries no RDMA: " + ErrNotSupported.Error()
}

func (e *unservedError) Unwrap() error { return ErrNotSupported }

// errnoErrors are the errors of calls by errno.
var errnoErrors = func() map[syscall.Errno]error {
	m := make(map[syscall.Errno]error)
	for _, e := range []error{
		ErrWouldBlock, ErrCongested, ErrMessageTooLong, ErrNotConnected, ErrAddressInUse, ErrAddressNotAvailable,
		ErrInvalid, ErrNotSupported, ErrNoTransport, ErrPermission, ErrTooMany, ErrQuota, ErrBusy, errDestination, errFault,
	} {
		m[e.(*errno.Error).Errno] = e
	}
	m[syscall.EBADF] = net.ErrClosed
	return m
}()

// remoteError is the error of a call that the daemon refused.
func remoteError(errno int, text string) error {
	e, ok := errnoErrors[syscall.Errno(errno)]
	if !ok {
		return fmt.Errorf("%s: %w", text, syscall.Errno(errno))
	}
	if e.Error() == text {
		return e
	}
	return &toldError{text, e}
}

// toldError is one of our errors with the daemon's words.
type toldError struct {
	text string
	err  error
}

func (e *toldError) Error() string { return e.text }

func (e *toldError) Unwrap() error { return e.err }

// errFault: memory of regions or operations is not that of AllocMemory.
var errFault error = &errno.Error{Text: "memory is not of AllocMemory", Errno: syscall.EFAULT}
