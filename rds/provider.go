package rds

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/rds-go/rds/internal/ipc"
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

// EnvProvider is the environment variable that names the provider of programs
// which leave the choice to Open.
const EnvProvider = "RDS_PROVIDER"

// AttachTimeout is how long Open, Default and Listen wait for the rdsd of a host
// that has one.
const AttachTimeout = 5 * time.Second

// Open is OpenContext with AttachTimeout.
func Open(name string, cfg Config) (Provider, error) {
	ctx, cancel := context.WithTimeout(context.Background(), AttachTimeout)
	defer cancel()
	return OpenContext(ctx, name, cfg)
}

// OpenContext returns the named provider: ProviderNode, a new Node with cfg;
// ProviderDaemon, a Client of this host's rdsd; or ProviderKernel. cfg counts
// for a Node only.
//
// The empty name leaves the choice to the environment: the provider that
// $RDS_PROVIDER names, else a Client if this host has an rdsd, else a new Node.
// The host has an rdsd, whether it runs or not, if $RDS_SOCKET is set, to
// something else than none, or the runtime directory exists: $RDS_RUNTIME_DIR if
// that is set, else /run/rds, else rds in $XDG_RUNTIME_DIR. A Node that is made
// because the host has none is mentioned once in the process's log: that of the
// package log/slog unless cfg has a Logger.
//
// A Client waits for the daemon until ctx ends; the error then names the
// daemon's socket and wraps ErrNoDaemon. The Client is made with Reconnect.
func OpenContext(ctx context.Context, name string, cfg Config) (Provider, error) {
	if name == "" {
		name = os.Getenv(EnvProvider)
	}
	switch name {
	case "":
		if _, has := ipc.FindPath(); has {
			return openClient(ctx)
		}
		n, err := NewNode(cfg)
		if err != nil {
			return nil, err
		}
		sayNode.Do(func() {
			const text = "rds: this host has no rdsd, so this process is a node of its own and rdsd cannot start beside it on the same addresses"
			if cfg.Logger != nil {
				cfg.Logger.Info(text)
			} else {
				slog.Info(text)
			}
		})
		return n, nil
	case ProviderNode:
		return NewNode(cfg)
	case ProviderDaemon:
		return openClient(ctx)
	case ProviderKernel:
		return OpenKernel()
	}
	return nil, &OpError{Op: "open", Err: fmt.Errorf("%w: no provider %q (have %s, %s, %s)", ErrInvalid, name, ProviderNode, ProviderDaemon, ProviderKernel)}
}

// sayNode: a Node was made for want of an rdsd, and the log says so.
var sayNode sync.Once

// openClient waits for the daemon, and returns no nil *Client as a Provider.
func openClient(ctx context.Context) (Provider, error) {
	c, err := awaitClient(ctx, ClientConfig{Reconnect: true})
	if err != nil {
		return nil, err
	}
	return c, nil
}
