//go:build !linux

package tcp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/rds-go/rds/transport"
)

var errUnsupported = fmt.Errorf("tcp: needs Linux: %w", errors.ErrUnsupported)

// Transport exists on Linux only.
type Transport struct{}

var _ transport.Transport = (*Transport)(nil)

// New returns an error that is errors.ErrUnsupported.
func New(Options) (*Transport, error) { return nil, errUnsupported }

// Name returns "tcp".
func (*Transport) Name() string { return "tcp" }

// Listen returns an error that is errors.ErrUnsupported.
func (*Transport) Listen(netip.Addr, func(transport.Link)) error { return errUnsupported }

// Dial returns an error that is errors.ErrUnsupported.
func (*Transport) Dial(context.Context, netip.Addr, netip.Addr, int) (transport.Link, error) {
	return nil, errUnsupported
}

// Stats returns nothing.
func (*Transport) Stats() []transport.Counter { return nil }

// Close does nothing.
func (*Transport) Close() error { return nil }
