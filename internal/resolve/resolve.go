package resolve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// timeout bounds one look-up.
const timeout = 5 * time.Second

// errName is the error of a name that cannot be one of a host.
var errName = errors.New("neither an IP address nor a host name")

// Addrs returns the addresses of host, an IP address or a name, in the order of
// preference: at least one if there is no error. Addresses that no host has, such
// as 0.0.0.0 and multicast groups, are returned only if host is one of them.
func Addrs(ctx context.Context, host string) ([]netip.Addr, error) {
	return addrs(ctx, host, net.DefaultResolver.LookupNetIP)
}

// Addr is the first of Addrs.
func Addr(ctx context.Context, host string) (netip.Addr, error) {
	all, err := Addrs(ctx, host)
	if err != nil {
		return netip.Addr{}, err
	}
	return all[0], nil
}

// Local is the first of Addrs that this host has. If it has none of them, the first one is
// returned, so that listening on it says what is wrong.
func Local(ctx context.Context, host string) (netip.Addr, error) {
	all, err := Addrs(ctx, host)
	if err != nil {
		return netip.Addr{}, err
	}
	return local(all), nil
}

func local(all []netip.Addr) netip.Addr {
	for _, a := range all {
		c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 0)))
		if err == nil {
			_ = c.Close()
			return a
		}
	}
	return all[0]
}

func addrs(ctx context.Context, host string, lookUp func(ctx context.Context, network, host string) ([]netip.Addr, error)) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a.Unmap()}, nil
	}
	if !IsName(host) {
		return nil, fmt.Errorf("%q: %w", host, errName)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	all, err := lookUp(ctx, "ip", host)
	if err != nil {
		return nil, explain(ctx, host, err)
	}
	var found []netip.Addr
	for _, want4 := range []bool{true, false} {
		for _, a := range all {
			if a = a.Unmap(); a.Is4() == want4 && !a.IsUnspecified() && !a.IsMulticast() {
				found = append(found, a)
			}
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("host %s has no address of a host, only %v", host, all)
	}
	return found, nil
}

// explain says which name could not be looked up and why. The resolver's error remains
// in reach of errors.As.
func explain(ctx context.Context, host string, err error) error {
	dns := new(net.DNSError)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("host %s: the name could not be looked up in time: %w", host, ctx.Err())
	case errors.As(err, &dns) && dns.IsNotFound:
		return &unknownError{host, err}
	}
	return fmt.Errorf("host %s: the name could not be looked up: %w", host, err)
}

// unknownError is the error of a name that the resolver does not know.
type unknownError struct {
	host string
	err  error
}

func (e *unknownError) Error() string { return "unknown host " + e.host }
func (e *unknownError) Unwrap() error { return e.err }

// IsName tells whether s may be the name of a host: labels of letters, digits, - and
// _ between dots, not all of the last one's digits, so that a mistyped address such as
// 10.0.0.256 is never looked up.
func IsName(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	last, label := false, 0 // the last label has something besides digits; its length
	for i := range len(s) {
		switch c := s[i]; {
		case c == '.':
			if label == 0 {
				return false
			}
			if i < len(s)-1 { // the dot at the end belongs to the last label
				last, label = false, 0
			}
			continue
		case '0' <= c && c <= '9':
		case 'a' <= c|0x20 && c|0x20 <= 'z', c == '-', c == '_':
			last = true
		default:
			return false
		}
		if label++; label > 63 {
			return false
		}
	}
	return last
}
