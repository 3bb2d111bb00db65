package loop

import (
	"context"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/transport"
)

// Network connects its transports. NewNetwork makes it.
type Network struct {
	mu        lockorder.Mutex[Network]
	listeners map[netip.Addr]*listener // guarded by mu
	dialed    int                      // guarded by mu; counts source ports
}

// listener is what Listen leaves behind.
type listener struct {
	t      *Transport
	accept func(transport.Link)
}

// NewNetwork returns a network without listeners.
func NewNetwork() *Network { return &Network{listeners: make(map[netip.Addr]*listener)} }

// Transport returns a new transport of the network.
func (n *Network) Transport() *Transport {
	return &Transport{net: n, links: make(map[*link]struct{})}
}

func (n *Network) listen(a netip.Addr, l *listener) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[a] != nil {
		return fmt.Errorf("loop: listen on %v: %w", a, syscall.EADDRINUSE)
	}
	n.listeners[a] = l
	return nil
}

// forget removes the listeners of t.
func (n *Network) forget(t *Transport) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for a, l := range n.listeners {
		if l.t == t {
			delete(n.listeners, a)
		}
	}
}

// lookup finds who listens on a, and a source port that says which path it is
// for, as TCP's do.
func (n *Network) lookup(a netip.Addr, path int) (*listener, uint16) {
	const low, groups, paths = 32768, 4096, 8
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dialed++
	return n.listeners[a], uint16(low + n.dialed%groups*paths + (path%paths+paths)%paths)
}

// Dial connects to whoever listens on remote.
func (t *Transport) Dial(ctx context.Context, local, remote netip.Addr, path int) (transport.Link, error) {
	local, remote = local.Unmap(), remote.Unmap()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("loop: dial %v: %w", remote, err)
	}
	ln, port := t.net.lookup(remote, path)
	if ln == nil {
		return nil, fmt.Errorf("loop: dial %v: %w", remote, syscall.ECONNREFUSED)
	}
	a := newLink(t, netip.AddrPortFrom(local, port), netip.AddrPortFrom(remote, transport.DefaultPort))
	b := newLink(ln.t, a.remote, a.local)
	join(a, b)
	if !t.register(a) {
		return nil, fmt.Errorf("loop: dial %v: %w", remote, transport.ErrClosed)
	}
	if !ln.t.register(b) {
		a.Close(transport.Abort)
		return nil, fmt.Errorf("loop: dial %v: %w", remote, syscall.ECONNREFUSED)
	}
	go func() {
		defer ln.t.wg.Done() // taken by register
		ln.accept(b)
	}()
	return a, nil
}
