package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/rds-go/rds/rds"
)

// Addresses of the two processes on one host.
var (
	clientIP = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	serverIP = netip.AddrFrom4([4]byte{127, 0, 0, 2})
)

// closeLimit bounds the wait for acknowledgements when a socket or a node is
// closed: after a good run there is nothing to wait for.
const closeLimit = time.Second

// openProvider makes a node, or opens the kernel, as both sides have agreed.
func openProvider(cfg rds.Config, ip netip.Addr, h *hello) (rds.Provider, error) {
	cfg.Addresses, cfg.Port, cfg.Paths, cfg.Linger = []netip.Addr{ip}, h.Port, h.Paths, closeLimit
	cfg.TCP.Congestion, cfg.TCP.EventLoops = h.Congestion, h.Loops
	cfg.TCP.SendBuffer, cfg.TCP.ReceiveBuffer = h.Buffers.Send, h.Buffers.Receive
	if h.Congestion != "" || h.Buffers != (Buffers{}) {
		// A node that cannot set them would never connect, and say so only in
		// its log.
		l, err := tcpSettings{h.Congestion, h.Buffers}.listen(ip)
		if err != nil {
			return nil, err
		}
		l.Close()
	}
	return rds.Open(h.Provider, cfg)
}

// resolve makes an address of what --server says: a host, with a port or not.
func resolve(ctx context.Context, server string) (netip.AddrPort, error) {
	host, port := server, fmt.Sprint(DefaultControlPort)
	if h, p, err := net.SplitHostPort(server); err == nil {
		host, port = h, p
	}
	n, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	if err != nil {
		return netip.AddrPort{}, err
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return netip.AddrPortFrom(ips[0].Unmap(), uint16(n)), nil
}

func (r *Runner) loops(pin Pin) int {
	if r.Options.Loops == 0 && (pin == PinSame || pin == PinSplit) {
		return 1
	}
	return r.Options.Loops
}

// connect makes the control connection and a node on each side. The function
// returned ends them.
func (r *Runner) connect(ctx context.Context, control netip.AddrPort, w *Work, fail func(error)) (*cell, func() error, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", control.String())
	if err != nil {
		return nil, nil, err
	}
	c := &cell{ip: r.Options.Listen}
	ips := []netip.Addr{}
	if !c.ip.IsValid() {
		c.ip = clientIP
		if r.child == nil {
			c.ip = conn.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
		}
	}
	ips = append(ips, c.ip)
	if r.child != nil {
		ips = append(ips, serverIP)
	}
	port := r.Options.Port
	if r.child != nil || port == 0 {
		if port, err = freePort(r.Options.Port, ips...); err != nil {
			conn.Close()
			return nil, nil, err
		}
	}
	c.control = newController(conn, fail)
	h := &hello{Version: controlVersion, Provider: r.Options.Provider, Port: port, Paths: r.Options.Paths,
		Congestion: r.Options.Congestion, Buffers: r.Options.Buffers, Loops: r.loops(w.Pin)}
	if _, err = c.control.call(request{Op: opHello, Hello: h}); err == nil {
		c.provider, err = openProvider(r.Config, c.ip, h)
	}
	if err != nil {
		c.control.close()
		return nil, nil, err
	}
	return c, func() error {
		err := c.provider.Close()
		if context.Cause(c.hard) == nil {
			_, e := c.control.call(request{Op: opBye})
			err = errors.Join(err, e)
		}
		c.control.close()
		return err
	}, nil
}
