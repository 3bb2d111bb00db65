package rds

import (
	"net"
	"net/netip"

	"github.com/rds-go/rds/internal/afrds"
)

// chooser is a transport made of several: each serves some peers.
type chooser interface {
	// Chosen is the name of the one that serves a peer, empty while it is not known.
	Chosen(remote netip.Addr) string
	// Force has the one of this name serve a peer that is not served yet. It fails
	// if another one does.
	Force(remote netip.Addr, name string) error
}

// serving is the name of the transport that serves a remote address.
func (n *Node) serving(remote netip.Addr) string {
	t := n.via(remote)
	if c, ok := t.(chooser); ok {
		return c.Chosen(remote)
	}
	return t.Name()
}

// setTransport notes the wish. It concerns each destination when it is sent to.
func (s *nodeSocket) setTransport(w Wire) error {
	if s.closed.Load() {
		return net.ErrClosed
	}
	if _, both := s.node.wire.(chooser); w != WireAuto && !both && s.node.wire.Name() != string(w) {
		return ErrNoTransport
	}
	s.only.Store(&w)
	s.last.Store(nil) // so that the next send looks
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
	c, ok := s.node.via(remote).(chooser)
	if !ok { // setTransport has seen to it
		return nil
	}
	if have := c.Chosen(remote); have == string(w) || have == "" && c.Force(remote, string(w)) == nil {
		return nil
	}
	return ErrNotSupported
}

func (s *clientSocket) setTransport(w Wire) error {
	switch {
	case s.closed.Load():
		return net.ErrClosed
	case w != WireAuto:
		return ErrNotSupported
	}
	return nil
}

// setTransport asks the kernel, which refuses to change what Bind has chosen
// (net/rds/af_rds.c, rds_set_transport).
func (s *kernelSocket) setTransport(w Wire) error {
	if w == WireXRC {
		return ErrNoTransport
	}
	have, err := s.c.Transport()
	if err != nil || w == WireAuto || have == afrds.TransportTCP {
		return err
	}
	return s.c.SetTransport(afrds.TransportTCP)
}
