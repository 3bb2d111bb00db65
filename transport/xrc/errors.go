package xrc

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/rds-go/rds/xrc/objects"
)

// Errors that callers tell apart.
var (
	// ErrClosed: the transport, or the channel, was closed (net.ErrClosed).
	ErrClosed = fmt.Errorf("xrc: %w", net.ErrClosed)
	// ErrFull: the channel holds as many requests as it may (ENOMEM).
	ErrFull = fmt.Errorf("xrc: send queue full: %w", syscall.ENOMEM)
	// ErrRequest: a work request that no channel could do (EINVAL).
	ErrRequest = fmt.Errorf("xrc: bad work request: %w", syscall.EINVAL)
)

// Causes that connections between hosts end with.
var (
	errLost     = errors.New("xrc: connection lost")
	errSilent   = fmt.Errorf("xrc: the peer does not answer: %w", syscall.ETIMEDOUT)
	errFlood    = fmt.Errorf("xrc: the peer asks more than it may: %w", syscall.EPROTO)
	errShutdown = fmt.Errorf("xrc: the peer's transport ends: %w", syscall.ECONNREFUSED)
)

// StatusError is what a peer answered to a request for a service.
type StatusError struct{ Status objects.Status }

func (e *StatusError) Error() string { return "xrc: service: " + e.Status.String() }

// Unwrap gives the errno that fits.
func (e *StatusError) Unwrap() error {
	switch e.Status {
	case objects.StatusNotFound:
		return syscall.ENOENT
	case objects.StatusWrongService:
		return syscall.EPROTOTYPE
	case objects.StatusBusy:
		return syscall.EAGAIN
	case objects.StatusNotReady:
		return syscall.ESTALE
	}
	return syscall.ECONNREFUSED
}
