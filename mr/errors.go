package mr

import (
	"net"
	"syscall"
)

// Errors of the calls that change the table. errors.Is finds each of them and
// the errno that the comment names.
var (
	ErrKey         error = &sentinel{"mr: key names no region of this owner", syscall.EINVAL}                 // EINVAL; freed twice, too
	ErrEmpty       error = &sentinel{"mr: region without memory", syscall.EINVAL}                             // EINVAL
	ErrRights      error = &sentinel{"mr: unknown or contradicting rights", syscall.EINVAL}                   // EINVAL
	ErrDomain      error = &sentinel{"mr: no open protection domain of this device", syscall.EINVAL}          // EINVAL
	ErrBase        error = &sentinel{"mr: base wraps around or is not aligned as the memory", syscall.EINVAL} // EINVAL
	ErrTooLong     error = &sentinel{"mr: region too long for the pools", syscall.EMSGSIZE}                   // EMSGSIZE
	ErrExhausted   error = &sentinel{"mr: pool exhausted", syscall.EAGAIN}                                    // EAGAIN
	ErrPinned      error = &sentinel{"mr: owner's limit of pinned memory", syscall.EPERM}                     // EPERM, of Map
	ErrMemory      error = &sentinel{"mr: limit of registered memory", syscall.ENOMEM}                        // ENOMEM, of Register
	ErrBusy        error = &sentinel{"mr: protection domain has regions", syscall.EBUSY}                      // EBUSY
	ErrStuck       error = &sentinel{"mr: a reader is stuck, memory may be in use", syscall.EBUSY}            // EBUSY
	ErrInterrupted error = &sentinel{"mr: interrupted, invalidation goes on", syscall.EINTR}                  // EINTR
	ErrClosed      error = &closedError{}                                                                     // net.ErrClosed
)

type sentinel struct {
	text  string
	errno syscall.Errno
}

func (s *sentinel) Error() string { return s.text }
func (s *sentinel) Unwrap() error { return s.errno }

type closedError struct{}

func (*closedError) Error() string { return "mr: closed" }
func (*closedError) Unwrap() error { return net.ErrClosed }
