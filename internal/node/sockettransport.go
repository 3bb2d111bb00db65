package node

import (
	"net"
	"net/netip"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/transport/choice"
)

// Serving is the name of the transport that serves a pair of addresses.
func (n *Node) Serving(local, remote netip.Addr) string {
	t := n.Via(remote)
	if c, ok := t.(*choice.Transport); ok {
		return c.Chosen(local, remote)
	}
	return t.Name()
}

// SetTransport notes the wish. It concerns each destination when it is sent to.
func (s *Socket) SetTransport(w config.Wire) error {
	if s.Closed.Load() {
		return net.ErrClosed
	}
	if err := s.Has(w); err != nil {
		return err
	}
	s.only.Store(&w)
	s.Last.Store(nil) // makes the next send look the peer up again
	return nil
}

// Has tells whether the node has a transport.
func (s *Socket) Has(w config.Wire) error {
	if _, both := s.Node.Wire.(*choice.Transport); w != config.WireAuto && !both && s.Node.Wire.Name() != string(w) {
		return datagram.ErrNoTransport
	}
	return nil
}

// wanted is the transport to send by.
func (s *Socket) wanted() config.Wire {
	if w := s.only.Load(); w != nil {
		return *w
	}
	return config.WireAuto
}

// Admits tells whether this socket may send to a remote address.
func (s *Socket) Admits(remote netip.Addr, w config.Wire) error {
	c, ok := s.Node.Via(remote).(*choice.Transport)
	if !ok { // SetTransport does not store another value
		return nil
	}
	if have := c.Chosen(s.At.Addr, remote); have == string(w) || have == "" && c.Force(remote, string(w)) == nil {
		return nil
	}
	return datagram.ErrNotSupported
}

// Transports are the features of the daemon's transports.
func (n *Node) Transports() []string {
	names := []string{ipc.FeatureChoice}
	_, both := n.Wire.(*choice.Transport)
	for _, w := range []config.Wire{config.WireXRC, config.WireTCP} {
		if both || n.Wire.Name() == string(w) {
			names = append(names, string(w))
		}
	}
	return names
}

// chosen follows a change of what serves a remote address.
func (n *Node) chosen(remote netip.Addr) {
	var peers []*Peer
	n.Mu.RLock()
	for _, la := range n.locals {
		if p := n.Peers[PeerKey{Local: la.Addr, Remote: remote}]; p != nil {
			peers = append(peers, p)
		}
	}
	n.Mu.RUnlock()
	for _, p := range peers {
		n.Server().ShowServer(p)
	}
}
