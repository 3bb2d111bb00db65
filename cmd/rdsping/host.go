package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
)

// addresses returns the address of host and the local one to ping it from.
func addresses(ctx context.Context, host, source string) (remote, local netip.Addr, err error) {
	any := func(netip.Addr) bool { return true }
	if source == "" {
		if remote, err = resolve(ctx, host, any); err != nil {
			return
		}
		local, err = route(remote)
		return
	}
	if local, err = resolve(ctx, source, any); err != nil {
		return
	}
	remote, err = resolve(ctx, host, func(a netip.Addr) bool { return a.Is4() == local.Is4() })
	return
}

// resolve returns the first unicast address of host that fits.
func resolve(ctx context.Context, host string, fits func(netip.Addr) bool) (netip.Addr, error) {
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("unknown host %s", host)
	}
	for i, a := range addrs {
		a = a.Unmap()
		addrs[i] = a
		if !a.IsUnspecified() && !a.IsMulticast() && fits(a) {
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("%s has no address to be used here, only %v", host, addrs)
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
