package node

import (
	"net"
	"net/netip"

	"github.com/rds-go/rds/internal/statefile"
)

// BindFor makes a socket of o, nil: of this process; prepare, if any, sees it before anybody else does. A new address has
// its first socket before the node listens on it: a peer may have waited for just that.
func (n *Node) BindFor(addr netip.AddrPort, o *statefile.Owner, prepare func(*Socket)) (*Socket, error) {
	addr, err := n.Bindable(addr)
	if err != nil {
		return nil, err
	}
	var s *Socket
	met := 0
	bind := func(la *Local) error {
		b := newSocket(n, la)
		b.Account.Owner = b
		b.Account.SetLimit(n.Config.SendBuffer)
		b.Linger.Store(int64(n.Config.Linger))
		b.Maps.Store(n.mapGen.Load())
		if prepare != nil {
			prepare(b)
		}
		n.Mu.Lock()
		defer n.Mu.Unlock()
		if n.ending {
			return net.ErrClosed
		}
		var err error
		if met, err = la.bind(b, addr.Port(), o); err == nil {
			n.socks[b], s = struct{}{}, b
		}
		return err
	}
	la, err := n.listenWith(addr.Addr(), bind)
	if err == nil && s == nil {
		err = bind(la)
	}
	if err != nil {
		if s != nil { // The address cannot be listened on.
			s.At.unbind(s.Port, false)
			n.forget(s)
		}
		return nil, err
	}
	if met > 0 {
		s.Congest() // messages that came for the port before fill the socket
		la.expectFewer()
		la.Announce(n)
		n.Succession.met(met)
	}
	return s, nil
}

// Lingering makes a socket that was closed elsewhere and lingers for what it has sent: it has no port.
func (n *Node) Lingering(addr netip.AddrPort, prepare func(*Socket)) (*Socket, error) {
	la, err := n.Listen(addr.Addr())
	if err != nil {
		return nil, err
	}
	s := newSocket(n, la)
	s.Port = addr.Port()
	s.Account.Owner = s
	s.Closed.Store(true)
	prepare(s)
	return s, nil
}

func (n *Node) forget(s *Socket) {
	n.Mu.Lock()
	delete(n.socks, s)
	n.Mu.Unlock()
}
