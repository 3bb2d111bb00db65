package memnet

import (
	"net"
	"net/netip"
	"slices"
)

// listener is a listening socket. The network's lock guards it, and all methods need it.
type listener struct {
	n      *Network
	addr   netip.AddrPort
	sizes  sizes     // of the sockets of connections
	queue  []*socket // connections that nobody has accepted
	closed bool
	deaf   bool   // no connection is made any more, those that wait are accepted
	news   signal // what accepting waits for has changed
}

// listen opens a listening socket. Its error is that of package net.
func (n *Network) listen(local netip.AddrPort, sizes sizes) (*listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	addr, err := n.bind(unmap(local), n.used)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: networkOf(local), Addr: net.TCPAddrFromAddrPort(local), Err: err}
	}
	l := &listener{n: n, addr: addr, sizes: sizes}
	n.listeners[addr] = l
	return l, nil
}

// connect makes a connection to the listener, which is to be accepted, and returns the other
// end.
func (l *listener) connect(local, remote netip.AddrPort, sizes sizes) *socket {
	x, y := join(l.n, local, remote, sizes, l.sizes)
	x.dialed = true
	l.queue = append(l.queue, y)
	l.news.set()
	return x
}

// next is the oldest connection that nobody has accepted, nil if there is none.
func (l *listener) next() *socket {
	if len(l.queue) == 0 {
		return nil
	}
	s := l.queue[0]
	l.queue = slices.Delete(l.queue, 0, 1)
	return s
}

// ignore has no connection made any more.
func (l *listener) ignore() {
	l.deaf = true
	if l.n.listeners[l.addr] == l {
		delete(l.n.listeners, l.addr)
	}
	l.news.set()
}

// close ends listening, and resets the connections that nobody has accepted.
func (l *listener) close() {
	l.ignore()
	l.closed = true
	for _, s := range l.queue {
		s.reset()
	}
	l.queue = nil
	l.n.run()
	l.news.set()
}
