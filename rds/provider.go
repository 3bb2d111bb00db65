package rds

import (
	"fmt"
	"net/netip"
)

// Provider is where sockets come from: a Node, or the Kernel.
type Provider interface {
	// Bind makes a socket bound to addr; port 0 picks a free port.
	Bind(addr netip.AddrPort) (*Socket, error)
	// Info is a snapshot of sockets, connections, queues and counters.
	Info() (Info, error)
	// Close ends the provider and its sockets.
	Close() error
}

// Names of providers, for Open.
const (
	ProviderNode   = "node"
	ProviderKernel = "kernel"
)

// Open returns the named provider: ProviderNode, a new Node with cfg, or
// ProviderKernel, for which cfg is not used.
func Open(name string, cfg Config) (Provider, error) {
	switch name {
	case ProviderNode, "":
		return NewNode(cfg)
	case ProviderKernel:
		return OpenKernel()
	}
	return nil, &OpError{Op: "open", Err: fmt.Errorf("%w: no provider %q (have %s, %s)", ErrInvalid, name, ProviderNode, ProviderKernel)}
}
