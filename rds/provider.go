package rds

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
)

// Provider is where sockets come from: a Node, a Client of rdsd, or the Kernel.
type Provider interface {
	// Bind makes a socket bound to addr; port 0 picks a free port.
	Bind(addr netip.AddrPort) (*Socket, error)
	// Info is a snapshot of sockets, connections, queues and counters.
	Info() (Info, error)
	// Close ends the provider and its sockets.
	Close() error
}

// Names of providers, for Open and the environment variable RDS_PROVIDER.
const (
	ProviderNode   = "node"
	ProviderDaemon = "rdsd"
	ProviderKernel = "kernel"
)

// EnvProvider is the environment variable that names the provider of programs
// which leave the choice to Open.
const EnvProvider = "RDS_PROVIDER"

// Open returns the named provider: ProviderNode, a new Node with cfg;
// ProviderDaemon, a Client of the rdsd of this host; or ProviderKernel. cfg
// counts for a Node only.
//
// The empty name leaves the choice to the environment: what $RDS_PROVIDER
// names, else the rdsd that is running and lets this process attach, else a
// new Node.
func Open(name string, cfg Config) (Provider, error) {
	if name == "" {
		name = os.Getenv(EnvProvider)
	}
	switch name {
	case "":
		c, err := Dial("")
		switch {
		case err == nil:
			return c, nil
		case errors.Is(err, ErrNoDaemon), errors.Is(err, ErrPermission), errors.Is(err, errors.ErrUnsupported):
			return NewNode(cfg)
		}
		return nil, err
	case ProviderNode:
		return NewNode(cfg)
	case ProviderDaemon:
		return Dial("")
	case ProviderKernel:
		return OpenKernel()
	}
	return nil, &OpError{Op: "open", Err: fmt.Errorf("%w: no provider %q (have %s, %s, %s)", ErrInvalid, name, ProviderNode, ProviderDaemon, ProviderKernel)}
}
