//go:build live

package peer

import (
	"net"
	"slices"
	"testing"
)

func TestListenersAreNoConnections(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = l.Close() }()
	at := l.Addr().(*net.TCPAddr).AddrPort()
	for _, listeners := range []bool{false, true} {
		list, err := tcpConns(at.Port(), listeners)
		if err != nil {
			t.Skipf("needs the kernel's socket monitor, and root (modprobe tcp_diag): %v", err)
		}
		if found := slices.ContainsFunc(list, func(c TCPConn) bool { return c.Local == at }); found != listeners {
			t.Errorf("listeners %v: %v", listeners, list)
		}
	}
}
