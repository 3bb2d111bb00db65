package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/transport"
)

const (
	pathModulus  = 8  // RDS_MPATH_WORKERS: what a source port is taken modulo
	portAttempts = 16 // busy source ports tried before the kernel may choose
)

// Dial connects local to Options.Port of remote. The source port modulo 8 is
// path, which tells a peer that looks (net/rds/tcp_connect.c,
// rds_tcp_conn_path_connect, since Linux commit a20a6992558f) which path this
// is; only when all of several such ports are busy does the kernel choose one.
func (t *Transport) Dial(ctx context.Context, local, remote netip.Addr, path int) (transport.Link, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()

	d := net.Dialer{KeepAlive: -1, Control: t.control}
	d.SetMultipathTCP(false)
	local, remote = local.Unmap(), remote.Unmap()
	to := netip.AddrPortFrom(remote, t.opts.Port)
	for i := 0; ; i++ {
		port := uint16(0)
		if i < portAttempts {
			port = t.sourcePort(path)
		}
		tc, err := d.DialTCP(ctx, network(remote), netip.AddrPortFrom(local, port), to)
		switch {
		case err == nil:
			l, err := t.newLink(tc, true)
			if err != nil {
				return nil, err // not l, a nil in an interface
			}
			return l, nil
		case t.ctx.Err() != nil:
			return nil, fmt.Errorf("tcp: dial %v: %w", to, transport.ErrClosed)
		case errors.Is(err, os.ErrDeadlineExceeded):
			// Package net reports the same deadline either way, as it happens.
			return nil, fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
		case port == 0 || !errors.Is(err, unix.EADDRINUSE) && !errors.Is(err, unix.EADDRNOTAVAIL):
			return nil, err
		}
	}
}

// sourcePort picks an ephemeral port that is path modulo 8, or 0 if there is none.
func (t *Transport) sourcePort(path int) uint16 {
	want := path % pathModulus
	first := t.lowPort + (want-t.lowPort%pathModulus+pathModulus)%pathModulus
	if path < 0 || first > t.highPort {
		return 0
	}
	n := (t.highPort-first)/pathModulus + 1
	t.mu.Lock()
	defer t.mu.Unlock()
	return uint16(first + pathModulus*t.rand.IntN(n))
}

// ephemeralPorts reads the range the kernel takes source ports from.
func ephemeralPorts() (low, high int) {
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err == nil {
		if n, _ := fmt.Sscan(string(b), &low, &high); n == 2 && low > 0 && low <= high && high < 1<<16 {
			return low, high
		}
	}
	return 32768, 60999 // the kernel's default
}
