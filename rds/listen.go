package rds

import (
	"net/netip"
	"sync"
)

var shared struct {
	mu sync.Mutex
	p  Provider
}

// Default returns the process's shared provider, made by Open("", Config{}) on
// the first call. It lives as long as the process; closing it makes the next
// call open another.
func Default() (Provider, error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if p := shared.p; p != nil && !ended(p) {
		return p, nil
	}
	p, err := Open("", Config{})
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
		return p.closed || p.att == nil && !p.cfg.Reconnect
	}
	return false
}

// Listen binds a socket to address, an "IP:port", on the process's shared
// provider. Port 0 picks a free one.
func Listen(address string) (*Socket, error) {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, &OpError{Op: "listen", Err: ErrInvalid}
	}
	p, err := Default()
	if err != nil {
		return nil, err
	}
	return p.Bind(ap)
}
