package rds

import (
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
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
type lab struct{ rdstest.Lab }

func newLab(t testing.TB) *lab { return &lab{rdstest.NewLab(t)} }

func newLoopLab(t testing.TB) *lab { return &lab{rdstest.NewLoopLab(t)} }

func (l *lab) node(cfg Config) *Node { l.Helper(); return rdstest.Start(&l.Lab, NewNode, cfg) }

// pair is a socket on each of two nodes; a's address is the smaller one.
func (l *lab) pair(cfg Config) (a, b *Socket) {
	l.Helper()
	return l.bind(l.node(cfg)), l.bind(l.node(cfg))
}

// bindOne is a socket on a node of its own.
func (l *lab) bindOne(cfg Config) *Socket { l.Helper(); return l.bind(l.node(cfg)) }
