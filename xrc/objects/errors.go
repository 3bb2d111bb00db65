package objects

import (
	"fmt"
	"net"
	"syscall"
)

// Errors of the calls. errors.Is finds each of them and the errno that the
// comment names.
var (
	ErrAttribute     error = &sentinel{"xrc: attribute missing, surplus or out of bounds", syscall.EINVAL}                // EINVAL
	ErrState         error = &sentinel{"xrc: the state does not allow it", syscall.EINVAL}                                // EINVAL
	ErrNumber        error = &sentinel{"xrc: number of no live object of this domain", syscall.EINVAL}                    // EINVAL
	ErrNotRegistered error = &sentinel{"xrc: the session is not registered with the target", syscall.EINVAL}              // EINVAL
	ErrForeign       error = &sentinel{"xrc: object of another session or device, or destroyed", syscall.EINVAL}          // EINVAL
	ErrExists        error = &sentinel{"xrc: the file has a domain already", syscall.EINVAL}                              // EINVAL, as Linux has it
	ErrNoDomain      error = &sentinel{"xrc: the file has no domain", syscall.EAGAIN}                                     // EAGAIN
	ErrFile          error = &sentinel{"xrc: not an open file", syscall.EBADF}                                            // EBADF
	ErrAccess        error = &sentinel{"xrc: the descriptor of the domain, or the user, may not do that", syscall.EACCES} // EACCES
	ErrMask          error = &sentinel{"xrc: unknown mask bit", syscall.EOPNOTSUPP}                                       // EOPNOTSUPP
	ErrUnsupported   error = &sentinel{"xrc: not supported on this system", syscall.EOPNOTSUPP}                           // EOPNOTSUPP
	ErrBusy          error = &sentinel{"xrc: object in use", syscall.EBUSY}                                               // EBUSY
	ErrLimit         error = &sentinel{"xrc: limit of the session, or numbers used up", syscall.ENOMEM}                   // ENOMEM
	ErrShare         error = &sentinel{"xrc: share of the user used up", syscall.EDQUOT}                                  // EDQUOT
	ErrSessions      error = &sentinel{"xrc: too many sessions", syscall.EMFILE}                                          // EMFILE
	ErrServiceInUse  error = &sentinel{"xrc: service id in use", syscall.EADDRINUSE}                                      // EADDRINUSE
	ErrStale         error = &sentinel{"xrc: generation of an object that is gone", syscall.ESTALE}                       // ESTALE
	ErrUnacked       error = &sentinel{"xrc: an event of the object is not acknowledged", syscall.EBUSY}                  // EBUSY
	ErrRestarts      error = &sentinel{"xrc: set-up was begun anew too often", syscall.ECONNREFUSED}                      // ECONNREFUSED
	ErrAcked         error = &sentinel{"xrc: no such event is waiting to be acknowledged", syscall.EINVAL}                // EINVAL
	ErrClosed        error = &sentinel{"xrc: closed", net.ErrClosed}                                                      // net.ErrClosed
)

// Outcomes of the data path's questions. They are no errno of a call: the
// transport turns them into what the peer is told.
var (
	ErrUnknownSRQ error = &sentinel{"xrc: number of no shared receive queue of the target's domain", syscall.EINVAL} // NAK 0x64, or a soft failure of the message
	ErrNotReady   error = &sentinel{"xrc: the target takes no requests", syscall.ENOTCONN}                           // dropped
)

// Causes that a Connection is closed with and that are found in a queue pair in
// StateError.
var (
	ErrDestroyed   error = &sentinel{"xrc: queue pair destroyed", syscall.ECONNRESET}
	ErrModified    error = &sentinel{"xrc: queue pair moved to error by a session", syscall.ECONNABORTED}
	ErrReset       error = &sentinel{"xrc: queue pair reset", syscall.ECONNABORTED}
	ErrPeerGone    error = &sentinel{"xrc: the peer's queue pair is gone", syscall.ECONNRESET}
	ErrIncarnation error = &sentinel{"xrc: the peer's daemon was restarted", syscall.ECONNRESET}
	ErrGrace       error = &sentinel{"xrc: the connection was lost and not resumed in time", syscall.ETIMEDOUT}
	ErrForbidden   error = &sentinel{"xrc: a request that the target does not allow", syscall.EPROTO}
	ErrRetry       error = &sentinel{"xrc: the peer does not answer", syscall.ETIMEDOUT}
	ErrDry         error = &sentinel{"xrc: a receive queue of the peer stayed empty", syscall.ETIMEDOUT}
	ErrOverrun     error = &sentinel{"xrc: completion queue overrun", syscall.EOVERFLOW}
)

// attributeError is an ErrAttribute that names the field which is wrong.
type attributeError struct {
	field string
	value any
}

func fieldError(field string, value any) error { return &attributeError{field, value} }

func (e *attributeError) Error() string { return fmt.Sprintf("xrc: %s: %v", e.field, e.value) }
func (e *attributeError) Unwrap() error { return ErrAttribute }

type sentinel struct {
	text string
	is   error
}

func (s *sentinel) Error() string { return s.text }
func (s *sentinel) Unwrap() error { return s.is }
