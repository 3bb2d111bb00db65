package daemon

import (
	"testing"

	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/rds/config"
)

// opNet is a network in memory for nodes with RDMA.
type opNet struct{ *rdstest.OpNet }

// newOpLab makes a lab whose nodes have RDMA.
func newOpLab(t testing.TB) (*lab, *opNet) {
	n := rdstest.NewOpNet()
	return &lab{rdstest.Lab{TB: t, Net: n.Net}}, &opNet{n}
}

// node starts a node with RDMA, on cfg.Transport if that is set.
func (n *opNet) node(l *lab, cfg config.Node) *node.Node { l.Helper(); return l.node(n.With(l, cfg)) }

// pair is a socket on each of two nodes with RDMA.
func (n *opNet) pair(l *lab) (a, b *socket.Socket) {
	return l.bind(n.node(l, config.Node{})), l.bind(n.node(l, config.Node{}))
}

// eachRDMA runs a test in memory, on XRC, and between addresses of one node. node
// makes nodes of one lab, or returns that one. Refused operations are not paced, or tests of
// many would wait for most of their time: what refused ones wait for has tests of its own.
func eachRDMA(t *testing.T, test func(t *testing.T, l *lab, node func() *node.Node)) {
	memory := config.Node{Memory: mr.Config{PeerLookUps: -1}}
	xrc := memory
	xrc.Wire = config.WireXRC
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		l, n := newOpLab(t)
		test(t, l, func() *node.Node { return n.node(l, memory) })
	})
	t.Run("xrc", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		test(t, l, func() *node.Node { return l.node(xrc) })
	})
	t.Run("own", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		n := l.node(xrc)
		test(t, l, func() *node.Node { return n })
	})
}
