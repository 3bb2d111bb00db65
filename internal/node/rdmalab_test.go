//go:build !live

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

// opBubble runs a test in a bubble, with a pair of sockets.
func opBubble(t *testing.T, test func(t *testing.T, l *lab, n *opNet, a, b *socket.Socket)) {
	t.Helper()
	rdstest.Bubble(t, func(t *testing.T) {
		l, n := newOpLab(t)
		a, b := n.pair(l)
		test(t, l, n, a, b)
	})
}

// rdmaWay is what operations are carried by.
type rdmaWay string

// rdmaWays are links in memory, XRC, and the memory of one node.
var rdmaWays = []rdmaWay{"memory", "xrc", "own"}

// lab makes a lab and what makes its nodes, or returns the same one each time.
func (w rdmaWay) lab(t *testing.T) (l *lab, node func() *Node) {
	if w == "memory" {
		l, n := newOpLab(t)
		return l, func() *Node { return n.node(l, config.Node{}) }
	}
	l = newMemLab(t)
	start := func() *Node { return l.node(config.Node{Wire: config.WireXRC}) }
	if w == "own" {
		n := start()
		return l, func() *Node { return n }
	}
	return l, start
}

// eachWay runs a test in a bubble for each of rdmaWays, with two sockets.
func eachWay(t *testing.T, test func(t *testing.T, l *lab, node func() *Node, a, b *socket.Socket)) {
	t.Helper()
	bubbleOn(t, rdmaWays, func(t *testing.T, way rdmaWay) {
		l, node := way.lab(t)
		test(t, l, node, l.bind(node()), l.bind(node()))
	})
}
