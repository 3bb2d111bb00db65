package rds

import (
	"net/netip"
	"sync"
)

var shared struct {
	mu   sync.Mutex
	node *Node
}

// Default returns the process's shared node, made with the zero Config on the
// first call. It lives as long as the process; closing it makes the next call
// start another.
func Default() (*Node, error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if n := shared.node; n != nil {
		n.mu.RLock()
		ending := n.ending
		n.mu.RUnlock()
		if !ending {
			return n, nil
		}
	}
	n, err := NewNode(Config{})
	if err != nil {
		return nil, err
	}
	shared.node = n
	return n, nil
}

// Listen binds a socket to address, an "IP:port", on the process's shared node.
// Port 0 picks a free one.
func Listen(address string) (*Socket, error) {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, &OpError{Op: "listen", Err: ErrInvalid}
	}
	n, err := Default()
	if err != nil {
		return nil, err
	}
	return n.Bind(ap)
}
