//go:build !linux

package gnetloop

import (
	"errors"
	"net/netip"
)

// Loops exist on Linux only.
type Loops struct{}

// NewLoops returns an error that is errors.ErrUnsupported.
func NewLoops(n, buffer int) (*Loops, error) { return nil, errors.ErrUnsupported }

// Watch does nothing.
func (*Loops) Watch(int, Server) *Source { return &Source{} }

// Close does nothing.
func (*Loops) Close() error { return nil }

// Source exists on Linux only.
type Source struct{}

// Stop does nothing.
func (*Source) Stop() {}

// Poke does nothing.
func (*Source) Poke() {}

// Near does nothing.
func (*Source) Near(netip.Addr) {}

// NewAwakened returns an error that is errors.ErrUnsupported.
func NewAwakened(chan struct{}) (*Loops, error) { return nil, errors.ErrUnsupported }
