package fabric

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/rds-go/rds/xrc/setup"
)

// Errors that callers tell apart.
var (
	// ErrClosed: the fabric, or the channel, was closed.
	ErrClosed = errors.New("fabric: closed")
	// ErrFull: the channel holds as many requests as it may (ENOMEM).
	ErrFull = fmt.Errorf("fabric: send queue full: %w", syscall.ENOMEM)
	// ErrRequest: a work request that no channel could do (EINVAL).
	ErrRequest = fmt.Errorf("fabric: bad work request: %w", syscall.EINVAL)
	// ErrForeign: a key of another protection domain, or an object of another
	// session (EINVAL).
	ErrForeign = fmt.Errorf("fabric: object or key of another domain: %w", syscall.EINVAL)
	// ErrOverrun: a completion found its queue full (EOVERFLOW). Nothing completes
	// there any more.
	ErrOverrun = fmt.Errorf("fabric: completion queue overrun: %w", syscall.EOVERFLOW)
)

// Causes that connections between hosts end with.
var (
	errLost     = errors.New("fabric: connection lost")
	errCrossed  = errors.New("fabric: the peer connects itself")
	errReplaced = errors.New("fabric: the peer has connected anew")
	errSilent   = fmt.Errorf("fabric: the peer does not answer: %w", syscall.ETIMEDOUT)
	errFlood    = fmt.Errorf("fabric: the peer asks more than it may: %w", syscall.EPROTO)
	errIdle     = errors.New("fabric: connection without use")
	errShutdown = fmt.Errorf("fabric: the peer's fabric ends: %w", syscall.ECONNREFUSED)
)

// StatusError is what a peer answered to a request for a service.
type StatusError struct{ Status setup.Status }

func (e *StatusError) Error() string { return "fabric: service: " + e.Status.String() }

// Unwrap gives the errno that fits.
func (e *StatusError) Unwrap() error {
	switch e.Status {
	case setup.NotFound:
		return syscall.ENOENT
	case setup.WrongService:
		return syscall.EPROTOTYPE
	case setup.Busy:
		return syscall.EAGAIN
	case setup.NotReady:
		return syscall.ESTALE
	}
	return syscall.ECONNREFUSED
}
