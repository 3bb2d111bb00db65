package main

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/rds"
)

// wireAuto is the value of --wire that means rds.WireAuto.
const wireAuto = "auto"

// choose completes the provider: a flag that is about one of them means it. node says
// that there is one about the node.
func (o *options) choose(node bool) error {
	switch {
	case o.wire != wireAuto && o.wire != string(rds.WireXRC) && o.wire != string(rds.WireTCP):
		return cli.Usagef("no transport %q (have auto, xrc, tcp)", o.wire)
	case o.socket != "" && o.provider == "":
		o.provider = rds.ProviderDaemon
	case o.socket != "" && o.provider != rds.ProviderDaemon:
		return cli.Usagef("--socket is of the rdsd provider, not of %s", o.provider)
	case o.provider == "" && node:
		o.provider = rds.ProviderNode
	}
	return nil
}

func (o *options) open() (rds.Provider, error) {
	if o.socket != "" {
		return rds.Dial(o.socket)
	}
	if o.provider == rds.ProviderDaemon {
		return rds.Dial("") // Dial attaches at once or fails.
	}
	cfg := rds.Config{Port: o.port, Linger: -1, Logger: zap.NewNop()}
	if o.wire != wireAuto {
		cfg.Wire = rds.Wire(o.wire)
	}
	return rds.Open(o.provider, cfg)
}

// daemonAddress returns an address of the daemon to ping remote from: that of
// the route if it has that, else one with a connection to remote, else any.
func daemonAddress(c *rds.Client, route, remote netip.Addr) (netip.Addr, error) {
	info, err := c.Info()
	if err != nil {
		return netip.Addr{}, err
	}
	if slices.Contains(info.Addresses, route) {
		return route, nil
	}
	for _, i := range info.Connections {
		if i.Remote == remote {
			return i.Local, nil
		}
	}
	for _, a := range info.Addresses {
		if a.Is4() == remote.Is4() {
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("rdsd has no address to reach %s from", remote)
}

// explain turns the errors a user can do something about into advice.
func explain(err error, local netip.Addr, port uint16) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s port %d is in use (by rdsd, another node or the kernel); choose another local address with -I, or use --provider rdsd or kernel", local, port)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		if e := (*rds.OpError)(nil); errors.As(err, &e) {
			err = e.Err
		}
		return fmt.Errorf("%s: %w; -I names another", local, err)
	}
	return err
}
