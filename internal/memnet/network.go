package memnet

import (
	"context"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

// Sizes of buffers and segments, if nothing else is asked for.
const (
	defaultSendBuffer    = 256 << 10
	defaultReceiveBuffer = 256 << 10
	firstWindow          = 64 << 10 // bounds the window before anything was acknowledged
	mssHere              = 65483    // of the loopback interface
	mssThere             = 1448     // of Ethernet
	lowestPort           = 32768    // of those that the network chooses
)

// Options set up a Network.
type Options struct {
	// Latency is how long everything is on its way, in each direction. A connection takes
	// twice as long to be made. 0: no time.
	Latency time.Duration
}

// Network connects sockets. New makes it.
type Network struct {
	latency time.Duration

	// mu guards all state of the network, of its sockets and of its stacks. No handler is
	// called with it held.
	mu        sync.Mutex
	listeners map[netip.AddrPort]*listener
	dialed    map[netip.AddrPort]struct{} // local addresses of sockets that were dialed
	holds     map[*hold]struct{}
	held      map[*wire]struct{} // wires with segments that a hold has stopped
	ready     []*wire            // wires with segments to look at
	nextPort  uint16
	released  signal // a hold is gone
}

// hold keeps back what goes from one address to another.
type hold struct {
	match func(from, to netip.AddrPort) bool
}

// New makes a network without listeners.
func New(o Options) *Network {
	return &Network{
		latency: o.Latency, nextPort: lowestPort,
		listeners: make(map[netip.AddrPort]*listener), dialed: make(map[netip.AddrPort]struct{}),
		holds: make(map[*hold]struct{}), held: make(map[*wire]struct{}),
	}
}

// signal wakes all who wait for it. The network's lock guards it.
type signal struct{ c chan struct{} }

// wait returns a channel that is closed by the next set.
func (s *signal) wait() <-chan struct{} {
	if s.c == nil {
		s.c = make(chan struct{})
	}
	return s.c
}

func (s *signal) set() {
	if s.c != nil {
		close(s.c)
		s.c = nil
	}
}

// Hold keeps back everything that goes from one address to another for which match is true:
// data, acknowledgements, and ends of connections. A connection is not made while either
// direction is held. What release lets go arrives in order; it may be called more than once.
// match is called with the network locked.
//
// To hold only the acknowledgements of what a socket sends, hold what its peer sends.
func (n *Network) Hold(match func(from, to netip.AddrPort) bool) (release func()) {
	h := &hold{match}
	n.mu.Lock()
	n.holds[h] = struct{}{}
	n.mu.Unlock()
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.holds, h)
		for w := range n.held {
			delete(n.held, w)
			n.look(w)
		}
		n.run()
		n.released.set()
	}
}

func (n *Network) holdsLocked(from, to netip.AddrPort) bool {
	for h := range n.holds {
		if h.match(from, to) {
			return true
		}
	}
	return false
}

// bind chooses a port that is 0, and an address if there is none. used are the addresses that
// are in use.
func (n *Network) bind(local netip.AddrPort, used func(netip.AddrPort) bool) (netip.AddrPort, error) {
	if local.Port() != 0 {
		if used(local) {
			return local, os.NewSyscallError("bind", syscall.EADDRINUSE)
		}
		return local, nil
	}
	for range 1 << 16 {
		a := netip.AddrPortFrom(local.Addr(), n.nextPort)
		if n.nextPort++; n.nextPort == 0 {
			n.nextPort = lowestPort
		}
		if !used(a) {
			return a, nil
		}
	}
	return local, os.NewSyscallError("bind", syscall.EADDRNOTAVAIL)
}

// used tells whether a socket can be bound to an address: no listener and no socket that was
// dialed has it.
func (n *Network) used(a netip.AddrPort) bool {
	_, dialed := n.dialed[a]
	return dialed || n.listeners[a] != nil
}

// listenerOf returns who listens on an address, nil if nobody does.
func (n *Network) listenerOf(a netip.AddrPort) *listener {
	if l := n.listeners[a]; l != nil {
		return l
	}
	all := netip.IPv6Unspecified()
	if a.Addr().Is4() {
		all = netip.IPv4Unspecified()
	}
	return n.listeners[netip.AddrPortFrom(all, a.Port())]
}

// dial connects local to remote and returns the socket. Its error is that of package net.
func (n *Network) dial(ctx context.Context, local, remote netip.AddrPort, sizes sizes) (*socket, error) {
	remote = unmap(remote)
	if local = unmap(local); !local.Addr().IsValid() || local.Addr().IsUnspecified() {
		local = netip.AddrPortFrom(sourceOf(remote.Addr()), local.Port())
	}
	s, err := n.connect(ctx, local, remote, sizes)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: networkOf(remote), Source: net.TCPAddrFromAddrPort(local), Addr: net.TCPAddrFromAddrPort(remote), Err: err}
	}
	return s, nil
}

func (n *Network) connect(ctx context.Context, local, remote netip.AddrPort, sizes sizes) (*socket, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	local, err := n.bind(local, n.used)
	if err != nil {
		return nil, err
	}
	n.dialed[local] = struct{}{}
	if err = n.shake(ctx, local, remote); err == nil {
		if l := n.listenerOf(remote); l != nil {
			return l.connect(local, remote, sizes), nil
		}
		err = os.NewSyscallError("connect", syscall.ECONNREFUSED)
	}
	delete(n.dialed, local)
	return nil, err
}

// shake lasts as long as the handshake of a connection. It unlocks the network meanwhile.
func (n *Network) shake(ctx context.Context, local, remote netip.AddrPort) error {
	wait := func(c <-chan struct{}, timeout <-chan time.Time) error {
		n.mu.Unlock()
		defer n.mu.Lock()
		select {
		case <-c:
		case <-timeout:
		case <-ctx.Done():
			return ctx.Err()
		}
		return nil
	}
	for n.holdsLocked(local, remote) || n.holdsLocked(remote, local) {
		if err := wait(n.released.wait(), nil); err != nil {
			return err
		}
	}
	if n.latency == 0 {
		return nil
	}
	timer := time.NewTimer(2 * n.latency)
	defer timer.Stop()
	return wait(nil, timer.C)
}

// here tells whether two addresses are those of one host.
func here(a, b netip.Addr) bool { return a == b || a.IsLoopback() && b.IsLoopback() }

// sourceOf is the address from which remote is dialed if none is given.
func sourceOf(remote netip.Addr) netip.Addr {
	if remote.Is4() && remote.IsLoopback() {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return remote
}

func unmap(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

func networkOf(a netip.AddrPort) string {
	if a.Addr().Is4() {
		return "tcp4"
	}
	return "tcp6"
}
