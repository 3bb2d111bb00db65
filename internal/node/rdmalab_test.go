package node

import (
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
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
func (n *opNet) node(l *lab, cfg config.Node) *Node { l.Helper(); return l.node(n.With(l, cfg)) }

// pair is a socket on each of two nodes with RDMA.
func (n *opNet) pair(l *lab) (a, b *socket.Socket) {
	return l.bind(n.node(l, config.Node{})), l.bind(n.node(l, config.Node{}))
}

// eachRDMA runs a test in memory, on XRC, and between addresses of one node. node
// makes nodes of one lab, or returns that one.
func eachRDMA(t *testing.T, test func(t *testing.T, l *lab, node func() *Node)) {
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		l, n := newOpLab(t)
		test(t, l, func() *Node { return n.node(l, config.Node{}) })
	})
	t.Run("xrc", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		test(t, l, func() *Node { return l.node(config.Node{Wire: config.WireXRC}) })
	})
	t.Run("own", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		n := l.node(config.Node{Wire: config.WireXRC})
		test(t, l, func() *Node { return n })
	})
}
