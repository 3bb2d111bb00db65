package config

import (
	"fmt"
	"net/netip"
)

// MaxPrefixes bounds Admission.Allow.
const MaxPrefixes = 65536

// Admission says which peers a node has connections with.
type Admission struct {
	// Allow lists the addresses of peers. Empty allows everybody. Otherwise a
	// connection from any other address is reset right behind accept, no other
	// address is dialed, and sending to one fails with ErrPermission. A node's own
	// addresses are always allowed. IPv4 addresses may be written mapped into IPv6.
	// At most 65,536 prefixes.
	Allow []netip.Prefix
}

// Validate returns nil or an error that names the first prefix that is wrong.
func (a *Admission) Validate() error {
	if len(a.Allow) > MaxPrefixes {
		return fmt.Errorf("%d prefixes, at most %d", len(a.Allow), MaxPrefixes)
	}
	for _, p := range a.Allow {
		if _, ok := UnmapPrefix(p); !ok {
			return fmt.Errorf("%v is not a prefix", p)
		}
	}
	return nil
}

// UnmapPrefix is the IPv4 form of a prefix of mapped addresses, with no bits behind its
// length. A prefix that holds mapped and other addresses has no meaning here.
func UnmapPrefix(p netip.Prefix) (netip.Prefix, bool) {
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
