package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/rds"
)

// choose completes the provider: a flag that is about one of them means it.
func (o *options) choose(port bool) error {
	switch {
	case o.socket != "" && o.provider == "":
		o.provider = rds.ProviderDaemon
	case o.socket != "" && o.provider != rds.ProviderDaemon:
		return cli.Usagef("--socket is of the rdsd provider, not of %s", o.provider)
	case o.provider == "" && port:
		o.provider = rds.ProviderNode
	}
	return nil
}

func (o *options) open() (rds.Provider, error) {
	if o.socket != "" {
		return rds.Dial(o.socket)
	}
	return rds.Open(o.provider, rds.Config{Port: o.port, Linger: -1})
}

// daemonAddress returns an address of the daemon to ping remote from: that of
// the route if it has that, else one with a connection to remote, else any.
func daemonAddress(c *rds.Client, route, remote netip.Addr) (netip.Addr, error) {
	candidates := []netip.Addr{route}
	info, err := c.Info()
	if err != nil {
		return netip.Addr{}, err
	}
	for _, i := range info.Connections {
		if i.Remote == remote {
			candidates = append(candidates, i.Local)
		}
	}
	for _, i := range info.Connections {
		candidates = append(candidates, i.Local)
	}
	for _, i := range info.Sockets {
		candidates = append(candidates, i.Bound.Addr())
	}
	// A report does not tell the addresses that nobody uses yet; the daemon
	// refuses those that are not its own.
	ours, _ := net.InterfaceAddrs()
	for _, a := range ours {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			candidates = append(candidates, p.Addr())
		}
	}
	for _, a := range candidates {
		if a.Is4() != remote.Is4() {
			continue
		}
		s, err := c.Bind(netip.AddrPortFrom(a, 0))
		if err == nil {
			return a, s.Close()
		}
		if !errors.Is(err, rds.ErrAddressNotAvailable) {
			return netip.Addr{}, err
		}
	}
	return netip.Addr{}, fmt.Errorf("rdsd does not have %s; choose one of its addresses with -I", route)
}

// explain turns the errors a user can do something about into advice.
func explain(err error, local netip.Addr, port uint16) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s port %d is in use (by rdsd, another node or the kernel); choose another local address with -I, or use --provider rdsd or kernel", local, port)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%s is not an address of this host, or not one of rdsd's (-I)", local)
	}
	return err
}
