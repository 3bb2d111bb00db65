package rds

import (
	"fmt"
	"net/netip"
	"slices"
)

// bindable is the address that a socket is to be bound to: addr, with the node's only
// address if addr has none.
func (n *Node) bindable(addr netip.AddrPort) (netip.AddrPort, error) {
	addr = unmap(addr)
	if !addr.Addr().IsValid() {
		ip, err := onlyAddress(n.ownAddresses())
		if err != nil {
			return addr, err
		}
		addr = netip.AddrPortFrom(ip, addr.Port())
	}
	return addr, checkLocal(addr)
}

// ownAddresses are those that sockets of the node may have: the configured ones, or what
// has been bound so far.
func (n *Node) ownAddresses() []netip.Addr {
	var own []netip.Addr
	for _, a := range n.cfg.Addresses {
		own = append(own, a.Unmap())
	}
	if own == nil {
		for _, la := range n.allLocals() {
			own = append(own, la.addr)
		}
	}
	slices.SortFunc(own, netip.Addr.Compare)
	return slices.Compact(own)
}

// serves tells whether applications may bind to an address.
func (n *Node) serves(a netip.Addr) bool {
	return len(n.cfg.Addresses) == 0 || slices.ContainsFunc(n.cfg.Addresses, func(b netip.Addr) bool { return b.Unmap() == a })
}

// onlyAddress is the one address there is, which ":port" means.
func onlyAddress(own []netip.Addr) (netip.Addr, error) {
	switch len(own) {
	case 1:
		return own[0], nil
	case 0:
		return netip.Addr{}, fmt.Errorf("%w: a port alone is at the only address, and there is none yet: name one of this host's, %s", ErrInvalid, enumerate(hostAddresses()))
	}
	return netip.Addr{}, fmt.Errorf("%w: a port alone is at the only address, and there are several: name one of %s", ErrInvalid, enumerate(own))
}
