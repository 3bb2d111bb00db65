package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/rds-go/rds/internal/resolve"
	"github.com/rds-go/rds/rds"
)

// Addresses of the two sides on one host.
var (
	clientIP = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	serverIP = netip.AddrFrom4([4]byte{127, 0, 0, 2})
)

// closeLimit bounds the wait for acknowledgements when a socket or a node is
// closed: after a good run there is nothing to wait for.
const closeLimit = time.Second

// providers are what a process has its sockets from: under RDS the provider
// that is measured, under Node and OverTCP those to compare it with, if there are
// to be any.
type providers map[Transport]rds.Provider

// providerNone is for works that have no sockets.
const providerNone = "none"

// openProviders opens them as both sides have agreed.
func openProviders(cfg rds.Config, ip netip.Addr, h *hello) (providers, error) {
	p := providers{}
	if h.Provider == providerNone {
		return p, nil
	}
	cfg.Wire = h.Wire
	measured, err := openProvider(cfg, ip, h.Provider, h.Port, h)
	if err != nil {
		return nil, err
	}
	p[RDS] = measured
	for t, port := range map[Transport]uint16{Node: h.Node, OverTCP: h.OverTCP} {
		if port == 0 {
			continue
		}
		if cfg.Wire = h.Wire; t == OverTCP {
			cfg.Wire = rds.WireTCP
		}
		if p[t], err = openProvider(cfg, ip, rds.ProviderNode, port, h); err != nil {
			delete(p, t)
			return nil, errors.Join(err, p.close())
		}
	}
	return p, nil
}

func openProvider(cfg rds.Config, ip netip.Addr, name string, port uint16, h *hello) (rds.Provider, error) {
	if name == rds.ProviderDaemon {
		return rds.NewClient(rds.ClientConfig{Path: h.Socket, Reconnect: h.Reconnect})
	}
	cfg.Addresses, cfg.Port, cfg.Paths, cfg.Linger = []netip.Addr{ip}, port, h.Paths, closeLimit
	cfg.XRC.CRC = h.CRC
	if h.Guesses {
		cfg.Memory.PeerLookUps = -1
	}
	cfg.TCP.Congestion, cfg.TCP.EventLoops = h.Congestion, h.Loops
	cfg.TCP.SendBuffer, cfg.TCP.ReceiveBuffer = h.Buffers.Send, h.Buffers.Receive
	if h.Congestion != "" || h.Buffers != (Buffers{}) {
		// A node that cannot set them would never connect, and say so only in
		// its log.
		l, err := h.listen(ip)
		if err != nil {
			return nil, err
		}
		l.Close()
	}
	for limit := time.Now().Add(h.Attach); ; {
		p, err := rds.Open(name, cfg)
		if err == nil || time.Now().After(limit) {
			return p, err
		}
		time.Sleep(time.Millisecond)
	}
}

func (p providers) close() error {
	var errs []error
	for _, q := range p {
		errs = append(errs, q.Close())
	}
	return errors.Join(errs...)
}

// serverAddress makes an address of what --server says: a host, with a port or not.
func serverAddress(ctx context.Context, server string) (netip.AddrPort, error) {
	host, port := server, fmt.Sprint(DefaultControlPort)
	if h, p, err := net.SplitHostPort(server); err == nil {
		host, port = h, p
	}
	n, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	if err != nil {
		return netip.AddrPort{}, err
	}
	ip, err := resolve.Addr(ctx, host)
	return netip.AddrPortFrom(ip, uint16(n)), err
}

// hello is what both sides are told.
func (r *Runner) hello(port uint16) *hello {
	o := &r.Options
	h := &hello{Version: controlVersion, Provider: o.Provider, Port: port, Paths: o.Paths, TCPSettings: o.TCPSettings, Wire: o.wire(), CRC: o.crc(), Guesses: o.Ops}
	if o.Loops == 0 && (r.pin == PinSame || r.pin == PinSplit) {
		h.Loops = 1
	}
	return h
}

// connect opens the providers on each side. The function returned closes them.
func (r *Runner) connect(w *Work, fail func(error)) (*cell, func() error, error) {
	c := &cell{ip: r.ip(clientSide), runner: r, daemons: r.daemons, control: r.child.controller, hello: r.hello(r.Options.Port)}
	theirs := *c.hello
	if err := r.agree(w, c.hello, &theirs); err != nil {
		return nil, nil, err
	}
	c.control.watch(fail)
	r.daemons.watch(fail)
	release := func() { c.control.watch(nil); r.daemons.watch(nil) }
	_, err := c.control.call(request{Op: opHello, Hello: &theirs})
	if err == nil {
		c.providers, err = openProviders(r.Config, c.ip, c.hello)
	}
	if err != nil {
		release()
		return nil, nil, err
	}
	return c, func() error {
		defer release()
		err := c.providers.close()
		if context.Cause(c.hard) == nil {
			_, e := c.control.call(request{Op: opBye})
			err = errors.Join(err, e)
		}
		return err
	}, nil
}

// agree completes what both sides are told.
func (r *Runner) agree(w *Work, ours, theirs *hello) (err error) {
	free := func(want uint16) (port uint16) {
		if err == nil {
			port, err = freePort(want, r.ip(clientSide), r.ip(serverSide))
		}
		return port
	}
	switch {
	case w.belowSockets():
		ours.Provider = providerNone
	case r.Options.Server != "":
		ours.Socket = r.Options.Socket
		ours.Port, err = r.remotePort()
	case r.daemons == nil:
		ours.Port = free(r.Options.Port)
	case w.Baseline: // the daemons have the port that was asked for
		ours.Node = free(0)
	}
	if w.OverTCP {
		ours.OverTCP = free(0)
	}
	*theirs = *ours
	if r.daemons != nil {
		ours.Socket, theirs.Socket = r.daemons.socket(clientSide), r.daemons.socket(serverSide)
	}
	return err
}

// reach connects to a running server. From then on our address is the one that reaches it,
// unless the options have another.
func (r *Runner) reach(ctx context.Context) (*child, error) {
	at, err := serverAddress(ctx, r.Options.Server)
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", at.String())
	if err != nil {
		return nil, err
	}
	r.here = conn.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	return &child{controller: newController("server", conn)}, nil
}

// remotePort is the port of RDS with a running server: what the options say, or RDS's own, or
// any that is free.
func (r *Runner) remotePort() (uint16, error) {
	if r.Options.Port != 0 {
		return r.Options.Port, nil
	}
	port, err := freePort(rds.DefaultPort, r.ip(clientSide))
	if err != nil {
		port, err = freePort(0, r.ip(clientSide))
	}
	return port, err
}
