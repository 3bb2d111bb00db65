package transport

import (
	"context"
	"errors"
	"net/netip"
)

// DefaultPort is the TCP port of RDS over TCP (net/rds/tcp.h, RDS_TCP_PORT).
const DefaultPort = 16385

// MaxSlices is the largest number of slices that one vectored write may have
// (UIO_MAXIOV).
const MaxSlices = 1024

// Errors that links report.
var (
	// ErrClosed: the link is closed, or Close was called on it.
	ErrClosed = errors.New("transport: link closed")
	// ErrTooLong: the peer's header announces more payload than the bound
	// allows, the one sign of a stream that lost its framing.
	ErrTooLong = errors.New("transport: message longer than the bound")
	// ErrBadHeader: a header no RDS speaker sends (padding not zero, reserved
	// flags with a length that does not fit).
	ErrBadHeader = errors.New("transport: implausible header")
	// ErrDrainTimeout: the peer did not end its side in time after ours ended.
	ErrDrainTimeout = errors.New("transport: peer did not close in time")
)

// CloseMode says how Close ends a link.
type CloseMode uint8

const (
	// Drain ends our direction after what was written, goes on delivering what
	// the peer sends until it ends its own, for a bounded time, then closes.
	Drain CloseMode = iota
	// Abort resets the connection at once; what was not delivered is lost.
	Abort
)

// Transport makes links.
type Transport interface {
	// Name is "tcp", "xrc" or "loop".
	Name() string
	// Listen accepts links on a local address until the transport closes.
	// Each is offered to accept on a goroutine of the transport; accept must
	// start it or close it, at once or later, and must not block.
	Listen(local netip.Addr, accept func(Link)) error
	// Dial connects local to remote and returns the link unstarted. path is
	// the index of the path it is meant for; a transport that can lets the
	// peer see it (RDS over TCP: source port modulo 8).
	Dial(ctx context.Context, local, remote netip.Addr, path int) (Link, error)
	// Unlisten ends listening and lets links go on: who connects then is refused by the
	// system, before anything is acknowledged. Every link on which something may have been
	// acknowledged has been accepted when Unlisten returns.
	Unlisten()
	// Stats are the transport's counters, names as in Linux.
	Stats() []Counter
	// Close ends all listeners, aborts all links, and returns when every
	// handler has heard Closed.
	Close() error
}

// Counter is one named statistic.
type Counter struct {
	Name  string `json:"name"`
	Value uint64 `json:"value"`
}
