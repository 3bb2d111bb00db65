package rds

import (
	"net"
	"net/netip"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/transport/choice"
)

// serving is the name of the transport that serves a pair of addresses.
func (n *Node) serving(local, remote netip.Addr) string {
	t := n.via(remote)
	if c, ok := t.(*choice.Transport); ok {
		return c.Chosen(local, remote)
	}
	return t.Name()
}

// setTransport notes the wish. It concerns each destination when it is sent to.
func (s *nodeSocket) setTransport(w Wire) error {
	if s.closed.Load() {
		return net.ErrClosed
	}
	if err := s.has(w); err != nil {
		return err
	}
	s.only.Store(&w)
	s.last.Store(nil) // makes the next send look the peer up again
	return nil
}

// has tells whether the node has a transport.
func (s *nodeSocket) has(w Wire) error {
	if _, both := s.node.wire.(*choice.Transport); w != WireAuto && !both && s.node.wire.Name() != string(w) {
		return ErrNoTransport
	}
	return nil
}

// wanted is the transport to send by.
func (s *nodeSocket) wanted() Wire {
	if w := s.only.Load(); w != nil {
		return *w
	}
	return WireAuto
}

// admits tells whether this socket may send to a remote address.
func (s *nodeSocket) admits(remote netip.Addr, w Wire) error {
	c, ok := s.node.via(remote).(*choice.Transport)
	if !ok { // setTransport does not store another value
		return nil
	}
	if have := c.Chosen(s.la.addr, remote); have == string(w) || have == "" && c.Force(remote, string(w)) == nil {
		return nil
	}
	return ErrNotSupported
}

// transports are the features of the daemon's transports.
func (n *Node) transports() []string {
	names := []string{ipc.FeatureChoice}
	_, both := n.wire.(*choice.Transport)
	for _, w := range []Wire{WireXRC, WireTCP} {
		if both || n.wire.Name() == string(w) {
			names = append(names, string(w))
		}
	}
	return names
}

// chosen follows a change of what serves a remote address.
func (n *Node) chosen(remote netip.Addr) {
	var peers []*peer
	n.mu.RLock()
	for _, la := range n.locals {
		if p := n.peers[peerKey{local: la.addr, remote: remote}]; p != nil {
			peers = append(peers, p)
		}
	}
	n.mu.RUnlock()
	for _, p := range peers {
		n.server().showServer(p)
	}
}
