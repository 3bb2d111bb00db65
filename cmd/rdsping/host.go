package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/rds-go/rds/internal/resolve"
)

// addresses returns the address of host and the local one to ping it from.
func addresses(ctx context.Context, host, source string) (remote, local netip.Addr, err error) {
	all, err := resolve.Addrs(ctx, host)
	if err != nil {
		return
	}
	if source != "" {
		if local, err = resolve.Local(ctx, source); err != nil {
			return
		}
	}
	for _, a := range all {
		if a.IsUnspecified() || a.IsMulticast() || source != "" && a.Is4() != local.Is4() {
			continue
		}
		if source == "" {
			local, err = route(a)
		}
		return a, local, err
	}
	return remote, local, fmt.Errorf("%s has no address to be used here, only %v", host, all)
}

// route returns the address the kernel would send from. Connecting a UDP
// socket sends nothing.
func route(to netip.Addr) (netip.Addr, error) {
	const discard = 9
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, discard)))
	if err != nil {
		return netip.Addr{}, fmt.Errorf("no route to %s: %w", to, cause(err))
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), nil
}
