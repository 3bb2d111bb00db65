package rdstest

import (
	"context"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/rds-go/rds/internal/memnet"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/transport/loop"
)

// Lab is where the nodes of a test reach each other: by the host's sockets, by sockets in memory,
// or by links in memory.
type Lab struct {
	testing.TB
	Port    uint16
	Net     *loop.Network   // links in memory; nil: sockets
	Sockets *memnet.Network // sockets in memory; nil: the host's

	raw sockets // of peers that speak the wire by hand
}

// NewLab makes a lab of the host's sockets.
func NewLab(t testing.TB) Lab { return Lab{TB: t, Port: NewPort(), raw: hostSockets} }

// NewMemLab makes a lab of sockets in memory, for a test in a bubble. The nodes have to be started
// on Lab.Sockets.
func NewMemLab(t testing.TB) Lab {
	n := memnet.New(memnet.Options{})
	return Lab{TB: t, Port: NewPort(), Sockets: n, raw: sockets{
		dial:   func(ctx context.Context, from, to netip.AddrPort) (Conn, error) { return n.DialContext(ctx, from, to) },
		listen: func(at netip.AddrPort) (listener, error) { return n.Listen(at) },
	}}
}

// NewLoopLab makes a lab of links in memory.
func NewLoopLab(t testing.TB) Lab { return Lab{TB: t, Net: loop.NewNetwork()} }

// Start starts a node that does not linger unless cfg says so, and does not give up XRC
// because the machine is busy.
func Start[N io.Closer](l *Lab, start func(config.Node) (N, error), cfg config.Node) N {
	l.Helper()
	cfg.Port = l.Port
	if cfg.Linger == 0 {
		cfg.Linger = -1
	}
	if cfg.XRC.Patience == 0 {
		cfg.XRC.Patience = Patience
	}
	if l.Net != nil && cfg.Transport == nil {
		cfg.Transport = l.Net.Transport()
	}
	n, err := start(cfg)
	Must(l, err)
	l.Cleanup(func() { _ = n.Close() })
	return n
}

// Bind makes a socket, at a new address unless one is given.
func Bind[S any](t testing.TB, n interface {
	Bind(netip.AddrPort) (S, error)
}, addr ...netip.AddrPort) S {
	t.Helper()
	at := netip.AddrPortFrom(NewAddr(), 4000)
	if len(addr) > 0 {
		at = addr[0]
	}
	s, err := n.Bind(at)
	Must(t, err)
	return s
}

// Serve makes a node serve applications, and returns where.
func Serve[N any, S io.Closer](t testing.TB, serve func(N, config.Service) (S, error), n N, cfg config.Service) (S, string) {
	t.Helper()
	if inBubble() {
		cfg.Path = inProcess(t)
	} else {
		dir, err := os.MkdirTemp("", "rds") // short enough for a socket's name
		Must(t, err)
		t.Cleanup(func() { os.RemoveAll(dir) })
		cfg.Path = filepath.Join(dir, "s")
	}
	svc, err := serve(n, cfg)
	Must(t, err)
	t.Cleanup(func() { _ = svc.Close() })
	return svc, cfg.Path
}

// Attach makes an application of a service.
func Attach[C io.Closer](t testing.TB, dial func(path string) (C, error), path string) C {
	t.Helper()
	c, err := dial(path)
	Must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}
