package rds

import (
	"net/netip"

	"github.com/rds-go/rds/internal/rdstest"
)

// bind makes a socket on a node, at a new address unless one is given.
func (l *lab) bind(n *Node, addr ...netip.AddrPort) *Socket {
	l.Helper()
	s := rdstest.Bind(l.TB, n, addr...)
	nodes.Store(s, n)
	return s
}
