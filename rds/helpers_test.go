package rds

import (
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/transport/loop"
)

// dials waits until the daemon lets one more in, or returns why it does not. The
// daemon hears of the end of a session a moment after it.
func dials(t testing.TB, path string) *Client {
	t.Helper()
	var c *Client
	rdstest.Eventually(t, "room for a session", func() bool {
		var err error
		c, err = Dial(path)
		return err == nil
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// lab makes nodes that reach each other, over TCP or in memory.
type lab struct {
	testing.TB
	port uint16
	net  *loop.Network
}

func newLab(t testing.TB) *lab { return &lab{TB: t, port: rdstest.NewPort()} }

func newLoopLab(t testing.TB) *lab { return &lab{TB: t, net: loop.NewNetwork()} }

// node starts a node that does not linger unless cfg says so, and does not give up XRC
// because the machine is busy.
func (l *lab) node(cfg Config) *Node {
	l.Helper()
	cfg.Port = l.port
	if cfg.Linger == 0 {
		cfg.Linger = -1
	}
	if cfg.XRC.Patience == 0 {
		cfg.XRC.Patience = rdstest.Patience
	}
	if l.net != nil && cfg.Transport == nil {
		cfg.Transport = l.net.Transport()
	}
	n, err := NewNode(cfg)
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = n.Close() })
	return n
}

// pair is a socket on each of two nodes; a's address is the smaller one.
func (l *lab) pair(cfg Config) (a, b *Socket) {
	l.Helper()
	return l.bind(l.node(cfg)), l.bind(l.node(cfg))
}

// bindOne is a socket on a node of its own.
func (l *lab) bindOne(cfg Config) *Socket { l.Helper(); return l.bind(l.node(cfg)) }
