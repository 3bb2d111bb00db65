//go:build !linux

package gnetloop

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/rds-go/rds/transport"
)

// Engine exists on Linux only.
type Engine struct{}

// New returns an error that is errors.ErrUnsupported, if o is good.
func New(o Options) (*Engine, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%s: needs Linux: %w", o.Name, errors.ErrUnsupported)
}

// Dial returns an error that is errors.ErrUnsupported.
func (*Engine) Dial(context.Context, netip.AddrPort, netip.AddrPort) (*Conn, error) {
	return nil, errors.ErrUnsupported
}

// Listen returns an error that is errors.ErrUnsupported.
func (*Engine) Listen(netip.AddrPort, func(*Conn)) (*Listener, error) {
	return nil, errors.ErrUnsupported
}

// Stats returns nothing.
func (*Engine) Stats() Stats { return Stats{} }

// Unlisten does nothing.
func (*Engine) Unlisten() {}

// Pause does nothing.
func (*Engine) Pause() {}

// Resume does nothing.
func (*Engine) Resume() {}

// Listening returns nothing.
func (*Engine) Listening() ([]Listening, error) { return nil, nil }

// Close does nothing.
func (*Engine) Close() error { return nil }

// Listener exists on Linux only.
type Listener struct{}

// Addr returns nothing.
func (*Listener) Addr() netip.AddrPort { return netip.AddrPort{} }

// Close does nothing.
func (*Listener) Close() {}

// Conn exists on Linux only.
type Conn struct{}

// Start returns transport.ErrClosed, as do all that an ended connection has.
func (*Conn) Start(Handler) error { return transport.ErrClosed }

// Settled does nothing.
func (*Conn) Settled() {}

// Writev returns transport.ErrClosed.
func (*Conn) Writev([][]byte) (int, error) { return 0, transport.ErrClosed }

// Close does nothing.
func (*Conn) Close(transport.CloseMode) {}

// Fail does nothing.
func (*Conn) Fail(error) {}

// Wake does nothing.
func (*Conn) Wake() {}

// Acked returns 0.
func (*Conn) Acked() uint64 { return 0 }

// Written returns 0.
func (*Conn) Written() uint64 { return 0 }

// TCPInfo reports false.
func (*Conn) TCPInfo() (transport.TCPInfo, bool) { return transport.TCPInfo{}, false }

// MSS returns 0.
func (*Conn) MSS() int { return 0 }

// Here returns false.
func (*Conn) Here() bool { return false }

// Pause does nothing.
func (*Conn) Pause() {}

// Resume does nothing.
func (*Conn) Resume() {}

// LocalAddr returns nothing.
func (*Conn) LocalAddr() netip.AddrPort { return netip.AddrPort{} }

// RemoteAddr returns nothing.
func (*Conn) RemoteAddr() netip.AddrPort { return netip.AddrPort{} }
