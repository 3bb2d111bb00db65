package address

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/rds-go/rds/internal/resolve"
	"github.com/rds-go/rds/rds/datagram"
)

// parseError is what is wrong with an address that was given as text, or with one that
// no socket can have. It is ErrInvalid.
type parseError struct{ address, why string }

func (e *parseError) Error() string { return fmt.Sprintf("address %q %s", e.address, e.why) }
func (e *parseError) Unwrap() error { return datagram.ErrInvalid }

// Split cuts "host:port". The host may be empty, an IP address or a name.
func Split(address string) (host string, port uint16, err error) {
	bad := func(format string, args ...any) (string, uint16, error) {
		return "", 0, &parseError{address, fmt.Sprintf(format, args...)}
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
	} else if err == nil && !Unicast(ip) {
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

func Parse(address string) (netip.AddrPort, error) {
	host, port, err := Split(address)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if host == "" {
		return netip.AddrPort{}, &parseError{address, "has no IP address before the port; only Listen takes it so, for the only address of the daemon or node"}
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return netip.AddrPort{}, &parseError{address, fmt.Sprintf("has the host name %s, which Listen and ResolveAddr look up and ParseAddr does not", host)}
	}
	return netip.AddrPortFrom(ip.Unmap(), port), nil
}

// Resolve are the addresses that a text may mean, the best first.
func Resolve(ctx context.Context, address string) ([]netip.AddrPort, error) {
	host, port, err := Split(address)
	if err != nil {
		return nil, err
	}
	if host == "" {
		_, err := Parse(address)
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

// CheckLocal tells what is wrong with an address that a socket is to be bound to.
func CheckLocal(addr netip.AddrPort) error {
	switch {
	case !Unicast(addr.Addr()):
		return fmt.Errorf("%w: %s", datagram.ErrInvalid, notUnicast(addr.Addr()))
	case addr.Port() == 1:
		return fmt.Errorf("%w: port 1 is reserved", datagram.ErrInvalid)
	}
	return nil
}

// Foreign is the error for a local address that is not one of have, which belong to whose.
func Foreign(whose string, have []netip.Addr) error {
	return fmt.Errorf("%w: it is not an address of %s, which has %s", datagram.ErrAddressNotAvailable, whose, Enumerate(have))
}

// Enumerate writes addresses for an error, not more than fit on a line.
func Enumerate(all []netip.Addr) string {
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

// OfHost are the unicast addresses of the host's interfaces, loopback last.
func OfHost() []netip.Addr {
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

func Unicast(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsValid() && !a.IsUnspecified() && !a.IsMulticast() && a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

func Unmap(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }
