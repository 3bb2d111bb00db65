package node

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/rds-go/rds/internal/address"
	"github.com/rds-go/rds/rds/datagram"
)

// Bindable is the address that a socket is to be bound to: addr, with the node's only
// address if addr has none.
func (n *Node) Bindable(addr netip.AddrPort) (netip.AddrPort, error) {
	addr = address.Unmap(addr)
	if !addr.Addr().IsValid() {
		ip, err := onlyAddress(n.OwnAddresses())
		if err != nil {
			return addr, err
		}
		addr = netip.AddrPortFrom(ip, addr.Port())
	}
	return addr, address.CheckLocal(addr)
}

// OwnAddresses are those that sockets of the node may have: the configured ones, or what
// has been bound so far.
func (n *Node) OwnAddresses() []netip.Addr {
	var own []netip.Addr
	for _, a := range n.Config.Addresses {
		own = append(own, a.Unmap())
	}
	if own == nil {
		for _, la := range n.AllLocals() {
			own = append(own, la.Addr)
		}
	}
	slices.SortFunc(own, netip.Addr.Compare)
	return slices.Compact(own)
}

// Serves tells whether applications may bind to an address.
func (n *Node) Serves(a netip.Addr) bool {
	return len(n.Config.Addresses) == 0 || slices.ContainsFunc(n.Config.Addresses, func(b netip.Addr) bool { return b.Unmap() == a })
}

// onlyAddress is the one address there is, which ":port" means.
func onlyAddress(own []netip.Addr) (netip.Addr, error) {
	switch len(own) {
	case 1:
		return own[0], nil
	case 0:
		return netip.Addr{}, fmt.Errorf("%w: a port alone is at the only address, and there is none yet: name one of this host's, %s", datagram.ErrInvalid, address.Enumerate(address.OfHost()))
	}
	return netip.Addr{}, fmt.Errorf("%w: a port alone is at the only address, and there are several: name one of %s", datagram.ErrInvalid, address.Enumerate(own))
}
