package peer

import (
	"context"
	"errors"
	"net/netip"
)

// Stack is an RDS implementation under test.
type Stack interface {
	// Bind makes a socket; buffer sizes of 0 are the stack's defaults.
	Bind(local netip.AddrPort, sendBuffer, receiveBuffer int) (Socket, error)
	// Counters are the stack's statistics under the names Linux uses.
	Counters() (map[string]uint64, error)
	// State is what the stack reports about its insides, for people to read
	// after a failure.
	State() (any, error)
	// Links lists the TCP connections in use.
	Links() ([]Link, error)
}

// Socket is a bound RDS socket. One goroutine at a time may send and one
// receive.
type Socket interface {
	LocalAddrPort() netip.AddrPort
	// Send waits until the message is accepted.
	Send(ctx context.Context, to netip.AddrPort, b []byte) error
	// TrySend returns EAGAIN for a full send buffer and ENOBUFS for a
	// congested port.
	TrySend(to netip.AddrPort, b []byte) error
	// Recv waits for a message and copies it to b.
	Recv(ctx context.Context, b []byte) (n int, from netip.AddrPort, err error)
	// SetMonitor turns RDS_CONG_MONITOR on or off, and RecvNews waits for what
	// it brings: a bit, port modulo 64, for each port to try again.
	SetMonitor(on bool) error
	RecvNews(ctx context.Context) (uint64, error)
	Close() error
}

// NoStack is the stack of a machine that only runs programs.
type NoStack struct{}

var _ Stack = NoStack{}

// Bind fails.
func (NoStack) Bind(netip.AddrPort, int, int) (Socket, error) { return nil, errors.ErrUnsupported }

// Counters is empty.
func (NoStack) Counters() (map[string]uint64, error) { return nil, nil }

// State is empty.
func (NoStack) State() (any, error) { return nil, nil }

// Links is empty.
func (NoStack) Links() ([]Link, error) { return nil, nil }
