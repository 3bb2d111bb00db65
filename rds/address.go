package rds

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/rds-go/rds/internal/resolve"
)

// ParseAddr reads an "IP:port", such as "10.0.0.1:4000" or "[2001:db8::1]:4000", with
// an IP address that a host may have. It does not look up names; ResolveAddr does.
func ParseAddr(address string) (netip.AddrPort, error) {
	a, err := parseAddr(address)
	if err != nil {
		return netip.AddrPort{}, &OpError{Op: "parse address", Err: err}
	}
	return a, nil
}

// ResolveAddr reads an "IP:port" as ParseAddr does, or a "host:port", whose host it
// looks up, for at most 5 s. Of a host that has several addresses it takes the first
// IPv4 address in the order of the system's resolver, and the first IPv6 address if
// there is no IPv4 address.
func ResolveAddr(ctx context.Context, address string) (netip.AddrPort, error) {
	all, err := resolveAddrs(ctx, address)
	if err != nil {
		return netip.AddrPort{}, &OpError{Op: "resolve", Err: err}
	}
	return all[0], nil
}

// addressError is what is wrong with an address that was given as text, or with one that
// no socket can have. It is ErrInvalid.
type addressError struct{ address, why string }

func (e *addressError) Error() string { return fmt.Sprintf("address %q %s", e.address, e.why) }
func (e *addressError) Unwrap() error { return ErrInvalid }

// splitAddress cuts "host:port". The host may be empty, an IP address or a name.
func splitAddress(address string) (host string, port uint16, err error) {
	bad := func(format string, args ...any) (string, uint16, error) {
		return "", 0, &addressError{address, fmt.Sprintf(format, args...)}
	}
	if address == "" {
		return bad("is empty: give IP:port or host:port")
	}
	bare := address
	if strings.HasPrefix(address, "[") && strings.HasSuffix(address, "]") {
		bare = address[1 : len(address)-1]
	}
	if a, err := netip.ParseAddr(bare); err == nil {
		return bad("has no port: give %s, or port 0", netip.AddrPortFrom(a, 4000))
	}
	host, text, err := net.SplitHostPort(address)
	switch {
	case err == nil:
	case strings.Count(address, ":") > 1:
		return bad("has an IPv6 address without brackets, or too many colons: give [IP]:port")
	case resolve.IsName(address):
		return bad("has no port: give %s:4000, or port 0", address)
	default:
		return bad("is not IP:port or host:port")
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return bad("has the port %q, which is not a number from 0 to 65535", text)
	}
	if ip, err := netip.ParseAddr(host); host != "" && err != nil && !resolve.IsName(host) {
		return bad("has the host %q, which is neither an IP address nor a name", host)
	} else if err == nil && !unicast(ip) {
		return bad("is wrong: %s", notUnicast(ip))
	}
	return host, uint16(n), nil
}

// notUnicast says why no socket has the address a.
func notUnicast(a netip.Addr) string {
	if a.IsUnspecified() {
		return fmt.Sprintf("%v is not the address of a host, and a socket has exactly one", a)
	}
	return fmt.Sprintf("%v is not the address of one host, and RDS sends to one", a)
}

func parseAddr(address string) (netip.AddrPort, error) {
	host, port, err := splitAddress(address)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if host == "" {
		return netip.AddrPort{}, &addressError{address, "has no IP address before the port; only Listen takes it so, for the only address of the daemon or node"}
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return netip.AddrPort{}, &addressError{address, fmt.Sprintf("has the host name %s, which Listen and ResolveAddr look up and ParseAddr does not", host)}
	}
	return netip.AddrPortFrom(ip.Unmap(), port), nil
}

// resolveAddrs are the addresses that a text may mean, the best first.
func resolveAddrs(ctx context.Context, address string) ([]netip.AddrPort, error) {
	host, port, err := splitAddress(address)
	if err != nil {
		return nil, err
	}
	if host == "" {
		_, err := parseAddr(address)
		return nil, err
	}
	ips, err := resolve.Addrs(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", address, err)
	}
	var all []netip.AddrPort
	for _, ip := range ips {
		all = append(all, netip.AddrPortFrom(ip, port))
	}
	return all, nil
}

// checkLocal tells what is wrong with an address that a socket is to be bound to.
func checkLocal(addr netip.AddrPort) error {
	switch {
	case !unicast(addr.Addr()):
		return fmt.Errorf("%w: %s", ErrInvalid, notUnicast(addr.Addr()))
	case addr.Port() == 1:
		return fmt.Errorf("%w: port 1 is reserved", ErrInvalid)
	}
	return nil
}

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

// foreign is the error for a local address that is not one of have, which belong to whose.
func foreign(whose string, have []netip.Addr) error {
	return fmt.Errorf("%w: it is not an address of %s, which has %s", ErrAddressNotAvailable, whose, enumerate(have))
}

// enumerate writes addresses for an error, not more than fit on a line.
func enumerate(all []netip.Addr) string {
	const most = 8
	if len(all) == 0 {
		return "none"
	}
	var b strings.Builder
	for i, a := range all[:min(len(all), most)] {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(a.String())
	}
	if more := len(all) - most; more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	return b.String()
}

// hostAddresses are the unicast addresses of the host's interfaces, loopback last.
func hostAddresses() []netip.Addr {
	all, _ := net.InterfaceAddrs() // without them the error says none
	var loopback, others []netip.Addr
	for _, a := range all {
		p, ok := a.(*net.IPNet)
		ip, valid := netip.AddrFromSlice(p.IP)
		switch ip = ip.Unmap(); {
		case !ok || !valid || ip.IsLinkLocalUnicast(): // a link-local address needs its zone
		case ip.IsLoopback():
			loopback = append(loopback, ip)
		default:
			others = append(others, ip)
		}
	}
	return append(others, loopback...)
}

// serves tells whether applications may bind to an address.
func (n *Node) serves(a netip.Addr) bool {
	return len(n.cfg.Addresses) == 0 || slices.ContainsFunc(n.cfg.Addresses, func(b netip.Addr) bool { return b.Unmap() == a })
}
