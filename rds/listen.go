package rds

import (
	"context"
	"net/netip"
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
		p.mu.RLock()
		defer p.mu.RUnlock()
		return p.ending
	case *Client:
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.closed
	}
	return false
}

// Listen is ListenContext with AttachTimeout.
func Listen(address string) (*Socket, error) {
	ctx, cancel := context.WithTimeout(context.Background(), AttachTimeout)
	defer cancel()
	return ListenContext(ctx, address)
}

// ListenContext binds a socket to address, an "IP:port", on the process's shared
// provider (see Default). Port 0 picks a free one. On a host that has an rdsd it
// waits until ctx ends for the daemon, also for one that has gone and comes
// again; the error then names the daemon's socket.
func ListenContext(ctx context.Context, address string) (*Socket, error) {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, &OpError{Op: "listen", Err: ErrInvalid}
	}
	p, err := openShared(ctx)
	if err != nil {
		return nil, err
	}
	if c, ok := p.(*Client); ok {
		return c.BindContext(ctx, ap)
	}
	return p.Bind(ap)
}
