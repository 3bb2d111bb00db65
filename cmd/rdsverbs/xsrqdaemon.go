package main

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/internal/daemon"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/rds"
)

// xsrqDaemon is what the processes of one side are attached to: a daemon within the command, or an rdsd.
type xsrqDaemon struct {
	socket string
	addr   netip.Addr
	dir    string          // directory of a daemon's socket; empty: socket is an rdsd's
	node   *node.Node      // nil: socket is an rdsd's
	svc    *daemon.Service // nil: socket is an rdsd's
}

// newXsrqDaemon finds the rdsd, or starts a daemon at an address. That it cannot is StatusUsage. A process needs
// memory for messages, in octets.
func newXsrqDaemon(addr netip.Addr, o *xsrqOptions, memory int) (d *xsrqDaemon, err error) {
	d = &xsrqDaemon{socket: o.socket, addr: addr}
	if o.socket != "" {
		return d, nil
	}
	defer func() {
		if err != nil {
			d.close()
			err = cli.WithStatus(cli.StatusUsage, err)
		}
	}()
	crc := rds.CRCOff
	if o.crc {
		crc = rds.CRCOn
	}
	d.node, err = node.New(rds.Config{Addresses: []netip.Addr{addr}, Wire: rds.WireXRC, Serves: true,
		TCP: rds.TCPConfig{EventLoops: 1}, XRC: rds.XRCConfig{Port: o.port, CRC: crc}})
	if err != nil {
		return d, err
	}
	if d.dir, err = os.MkdirTemp("", "rdsverbs-"); err != nil {
		return d, err
	}
	d.socket = filepath.Join(d.dir, "s")
	arena := rds.DefaultMemoryArena
	for arena < 4*memory && arena < maxMemory {
		arena *= 2
	}
	d.svc, err = daemon.New(d.node, rds.ServiceConfig{Path: d.socket, Mode: 0o600, MemoryArena: arena})
	return d, err
}

// close ends a daemon within the command; peers are told.
func (d *xsrqDaemon) close() {
	if d.svc != nil {
		_ = d.svc.Close()
	}
	if d.node != nil {
		_ = d.node.Close()
	}
	if d.dir != "" {
		_ = os.RemoveAll(d.dir)
	}
}

// connections is how many there are to a host, and how often this side has connected. An
// rdsd does not tell the latter, and of the former only those that RDS has.
func (d *xsrqDaemon) connections(c *rds.Client, to netip.Addr) (links int, dials uint64) {
	if d.node != nil {
		stats := d.node.Xrc.ChannelStats()
		return stats.Links, stats.Connected
	}
	info, _ := c.Info()
	for _, l := range info.XRC {
		if l.Remote.Addr() == to {
			links++
		}
	}
	return links, 0
}

// domainFile makes a file whose domain processes share as long as they have it
// open. The caller closes it.
func domainFile() (*os.File, error) {
	f, err := os.CreateTemp("", "rdsverbs-xsrq-")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

// addressTo is the local address that the route to a host has.
func addressTo(ctx context.Context, host netip.Addr) (netip.Addr, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "udp", netip.AddrPortFrom(host, 9).String()) // sends nothing
	if err != nil {
		return netip.Addr{}, err
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), nil
}
