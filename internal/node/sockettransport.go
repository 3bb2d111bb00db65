package node

import (
	"net"
	"net/netip"
	"slices"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/transport"
)

// SetTransport notes the wish. It concerns each destination when it is sent to.
func (s *Socket) SetTransport(w config.Wire) error {
	if s.Closed.Load() {
		return net.ErrClosed
	}
	if err := s.Has(w); err != nil {
		return err
	}
	s.only.Store(&w)
	s.last.Store(nil) // makes the next send look the peer up again
	return nil
}

// Has tells whether the node has a transport.
func (s *Socket) Has(w config.Wire) error {
	if w != config.WireAuto && !s.Node.speaks(w) {
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
	c := s.Node.Choosing(remote)
	if c == nil { // SetTransport does not store another value
		return nil
	}
	if have := c.Chosen(s.At.Addr, remote); have == string(w) || have == "" && c.Force(remote, string(w)) == nil {
		return nil
	}
	return datagram.ErrNotSupported
}

// speaks tells whether the node has a transport.
func (n *Node) speaks(w config.Wire) bool {
	return slices.ContainsFunc(n.wires, func(t transport.Transport) bool { return t.Name() == string(w) })
}

// Transports are the features of the daemon's transports.
func (n *Node) Transports() []string {
	names := []string{ipc.FeatureChoice}
	for _, w := range []config.Wire{config.WireXRC, config.WireTCP} {
		if n.speaks(w) {
			names = append(names, string(w))
		}
	}
	return names
}
