package rds

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/rds-go/rds/transport"
)

// maxPrefixes bounds Admission.Allow.
const maxPrefixes = 65536

// Admission says which peers a node has connections with.
type Admission struct {
	// Allow lists the addresses of peers. Empty allows everybody. Otherwise a
	// connection from any other address is reset right behind accept, no other
	// address is dialed, and none reaches the node. A node's own
	// addresses are always allowed. IPv4 addresses may be written mapped into IPv6.
	// At most 65,536 prefixes.
	Allow []netip.Prefix
}

// Validate returns nil or an error that names the first prefix that is wrong.
func (a *Admission) Validate() error {
	if len(a.Allow) > maxPrefixes {
		return fmt.Errorf("%d prefixes, at most %d", len(a.Allow), maxPrefixes)
	}
	for _, p := range a.Allow {
		if _, ok := unmapPrefix(p); !ok {
			return fmt.Errorf("%v is not a prefix", p)
		}
	}
	return nil
}

// unmapPrefix is the IPv4 form of a prefix of mapped addresses, with no bits behind its
// length. A prefix that holds mapped and other addresses has no meaning here.
func unmapPrefix(p netip.Prefix) (netip.Prefix, bool) {
	if !p.IsValid() {
		return p, false
	}
	if a := p.Addr(); a.Is4In6() {
		const mapped = 96
		if p.Bits() < mapped {
			return p, false
		}
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-mapped)
	}
	return p.Masked(), true
}

// allowList is an Admission made ready for look-ups. It does not change.
type allowList struct {
	prefixes map[netip.Prefix]struct{}
	bits4    []int // lengths of the IPv4 prefixes, each once
	bits6    []int // lengths of the IPv6 prefixes, each once
}

// newAllowList returns nil for an Admission that allows everybody.
func newAllowList(a *Admission) *allowList {
	if len(a.Allow) == 0 {
		return nil
	}
	l := &allowList{prefixes: make(map[netip.Prefix]struct{})}
	var seen4, seen6 [129]bool
	for _, p := range a.Allow {
		p, _ = unmapPrefix(p)
		l.prefixes[p] = struct{}{}
		seen, bits := &seen6, &l.bits6
		if p.Addr().Is4() {
			seen, bits = &seen4, &l.bits4
		}
		if b := p.Bits(); !seen[b] {
			seen[b] = true
			*bits = append(*bits, b)
		}
	}
	return l
}

// has tells whether some prefix contains the address.
func (l *allowList) has(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	bits := l.bits6
	if a.Is4() {
		bits = l.bits4
	}
	for _, b := range bits {
		p, err := a.Prefix(b)
		if _, ok := l.prefixes[p]; ok && err == nil {
			return true
		}
	}
	return false
}

// listed tells whether the allow-list names an address. Without a list it is false.
func (n *Node) listed(a netip.Addr) bool {
	l := n.allowed.Load()
	return l != nil && l.has(a)
}

// allows tells whether there may be a connection with an address: there is no
// allow-list, or it names the address, or the address is the node's own.
func (n *Node) allows(a netip.Addr) bool {
	l := n.allowed.Load()
	return l == nil || l.has(a) || n.local(a.Unmap()) != nil
}

// dial makes a link to an address that the node may have connections with.
func (n *Node) dial(ctx context.Context, local, remote netip.Addr, path int) (transport.Link, error) {
	if !n.allows(remote) {
		return nil, transport.ErrNotAllowed
	}
	return n.via(remote).Dial(ctx, local, remote, path)
}

// gate is the node as its transport's transport.Gate.
type gate struct{ n *Node }

var _ transport.Gate = gate{}

// Admits is for connections that come in.
func (g gate) Admits(remote netip.Addr) bool { return g.n.allows(remote) }

// Allows is for connections that go out.
func (g gate) Allows(remote netip.Addr) bool { return g.n.allows(remote) }
