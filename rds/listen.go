package rds

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/rds-go/rds/internal/address"
	"github.com/rds-go/rds/internal/resolve"
)

// shared is the process's provider.
var shared struct {
	token chan struct{} // capacity 1: whoever has put a value there may use p
	p     Provider
}

func init() { shared.token = make(chan struct{}, 1) }

// Default returns the process's shared provider, made by Open("", Config{}) on
// the first call. It lives as long as the process; closing it makes the next
// call open another.
func Default() (Provider, error) {
	ctx, cancel := context.WithTimeout(context.Background(), AttachTimeout)
	defer cancel()
	return openShared(ctx)
}

// openShared is Default within ctx.
func openShared(ctx context.Context) (Provider, error) {
	select {
	case shared.token <- struct{}{}:
		defer func() { <-shared.token }()
	case <-ctx.Done():
		return nil, &OpError{Op: "open", Err: ctx.Err()}
	}
	if p := shared.p; p != nil && !ended(p) {
		return p, nil
	}
	p, err := OpenContext(ctx, "", Config{})
	if err != nil {
		return nil, err
	}
	shared.p = p
	return p, nil
}

// ended tells whether a provider was closed.
func ended(p Provider) bool {
	switch p := p.(type) {
	case *Node:
		return p.over()
	case *Client:
		return p.over()
	}
	return false
}

// Listen is ListenContext with AttachTimeout.
func Listen(address string) (*Socket, error) {
	ctx, cancel := context.WithTimeout(context.Background(), AttachTimeout)
	defer cancel()
	return ListenContext(ctx, address)
}

// ListenContext binds a socket to address on the process's shared provider (see
// Default). The address is an "IP:port"; or a "host:port", whose host is looked up, for at
// most 5 s, and of whose addresses the first one counts that this host or its daemon has,
// IPv4 before IPv6; or a ":port", at the only address of the daemon or node. Port 0 picks
// a free one. On a host that has an rdsd it
// waits until ctx ends for the daemon, also for one that has gone and comes
// again; the error then names the daemon's socket.
func ListenContext(ctx context.Context, address string) (*Socket, error) {
	host, all, err := localAddrs(ctx, address)
	if err != nil {
		return nil, &OpError{Op: "listen", Err: err}
	}
	p, err := openShared(ctx)
	if err != nil {
		return nil, err
	}
	s, err := bindFirst(ctx, p, all)
	if e := (*OpError)(nil); errors.As(err, &e) && resolve.IsName(host) {
		return nil, &OpError{Op: "listen", Local: e.Local, Err: fmt.Errorf("%s: %w", host, e.Err)}
	}
	return s, err
}

// localAddrs are the addresses that a text may mean, the best first, and its host. An address
// without an IP address means the only one of the provider.
func localAddrs(ctx context.Context, text string) (host string, all []netip.AddrPort, err error) {
	host, port, err := address.Split(text)
	switch {
	case err != nil:
	case host == "":
		all = []netip.AddrPort{netip.AddrPortFrom(netip.Addr{}, port)}
	default:
		all, err = address.Resolve(ctx, text)
	}
	return host, all, err
}

// bindFirst binds the first of some addresses that the provider has.
func bindFirst(ctx context.Context, p Provider, all []netip.AddrPort) (s *Socket, err error) {
	bind := p.Bind
	if c, ok := p.(*Client); ok {
		bind = func(a netip.AddrPort) (*Socket, error) { return c.BindContext(ctx, a) }
	}
	for _, a := range all {
		if s, err = bind(a); !errors.Is(err, ErrAddressNotAvailable) {
			return s, err
		}
	}
	return nil, err
}
