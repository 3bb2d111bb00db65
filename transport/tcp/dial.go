package tcp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"

	"github.com/rds-go/rds/internal/gnetloop"
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
	c, err := gnetloop.Insist(ctx, func(ctx context.Context) (gnetloop.Stream, error) { return t.dial(ctx, local, remote, path) })
	if err != nil {
		return nil, err
	}
	return t.newLink(c), nil
}

func (t *Transport) dial(ctx context.Context, local, remote netip.Addr, path int) (gnetloop.Stream, error) {
	to := netip.AddrPortFrom(remote, t.opts.Port)
	for i := 0; ; i++ {
		port := uint16(0)
		if i < portAttempts {
			port = t.sourcePort(path)
		}
		c, err := t.engine.Dial(ctx, netip.AddrPortFrom(local, port), to)
		switch {
		case err == nil:
			return c, nil
		case port == 0 || !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EADDRNOTAVAIL):
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
