//go:build !linux

package ebpf

import (
	"net"
	"net/netip"
)

var noHandover = elsewhere("handover")

// Handover brings connections to many addresses to few listening sockets. Only Linux has it.
type Handover struct{}

// LoadHandover returns an error that Is ErrNotSupported.
func LoadHandover(HandoverOptions) (*Handover, error) { return nil, noHandover.err(notHere) }

// OpenHandover returns an error that Is ErrNotSupported.
func OpenHandover(string) (*Handover, error) { return nil, noHandover.err(notHere) }

// UnloadHandover returns an error that Is ErrNotSupported.
func UnloadHandover(string) error { return noHandover.err(notHere) }

// Register returns an error that Is ErrNotSupported.
func (*Handover) Register([]netip.Prefix, uint16, *net.TCPListener) error {
	return noHandover.err(notHere)
}

// Unregister returns an error that Is ErrNotSupported.
func (*Handover) Unregister(*net.TCPListener) error { return noHandover.err(notHere) }

// Prefixes returns an error that Is ErrNotSupported.
func (*Handover) Prefixes() ([]HandoverPrefix, error) { return nil, noHandover.err(notHere) }

// Status returns an error that Is ErrNotSupported.
func (*Handover) Status() (HandoverStatus, error) { return HandoverStatus{}, noHandover.err(notHere) }

// Close does nothing.
func (*Handover) Close() error { return nil }
