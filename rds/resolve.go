package rds

import (
	"context"
	"net/netip"

	"github.com/rds-go/rds/internal/address"
)

// ParseAddr reads an "IP:port", such as "10.0.0.1:4000" or "[2001:db8::1]:4000", with
// an IP address that a host may have. It does not look up names; ResolveAddr does.
func ParseAddr(text string) (netip.AddrPort, error) {
	a, err := address.Parse(text)
	if err != nil {
		return netip.AddrPort{}, &OpError{Op: "parse address", Err: err}
	}
	return a, nil
}

// ResolveAddr reads an "IP:port" as ParseAddr does, or a "host:port", whose host it
// looks up, for at most 5 s. Of a host that has several addresses it takes the first
// IPv4 address in the order of the system's resolver, and the first IPv6 address if
// there is no IPv4 address.
func ResolveAddr(ctx context.Context, text string) (netip.AddrPort, error) {
	all, err := address.Resolve(ctx, text)
	if err != nil {
		return netip.AddrPort{}, &OpError{Op: "resolve", Err: err}
	}
	return all[0], nil
}
