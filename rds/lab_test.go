package rds

import (
	"net/netip"

	"github.com/rds-go/rds/internal/rdstest"
)

// bind makes a socket on a node, at a new address unless one is given.
func (l *lab) bind(n *Node, addr ...netip.AddrPort) *Socket {
	l.Helper()
	at := netip.AddrPortFrom(rdstest.NewAddr(), 4000)
	if len(addr) > 0 {
		at = addr[0]
	}
	s, err := n.Bind(at)
	if err != nil {
		l.Fatal(err)
	}
	nodes.Store(s, n)
	return s
}
