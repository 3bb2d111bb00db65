package gnetloop

import (
	"net"
	"net/netip"
)

// Sharing has one listening socket for each port and family accept the connections to many
// addresses, which something else brings to that socket.
type Sharing struct {
	// Prefixes are the addresses that share. The socket of a family is bound to the first
	// address of the lowest prefix of the family.
	Prefixes []netip.Prefix
	// Register is called with each listening socket before it accepts, also with one that was
	// inherited or is not shared, and with the prefixes whose connections it is to accept. The
	// socket is closed if there is an error.
	Register func(prefixes []netip.Prefix, ln *net.TCPListener) error
}

// Has tells whether an address shares a listening socket.
func (s *Sharing) Has(a netip.Addr) bool {
	if s == nil {
		return false
	}
	for _, p := range s.Prefixes {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// of are the prefixes of the family of an address, and the first address of the lowest one.
func (s *Sharing) of(a netip.Addr) (prefixes []netip.Prefix, first netip.Addr) {
	for _, p := range s.Prefixes {
		if p.Addr().Is4() != a.Is4() {
			continue
		}
		prefixes = append(prefixes, p)
		if low := p.Masked().Addr(); !first.IsValid() || low.Less(first) {
			first = low
		}
	}
	return prefixes, first
}
