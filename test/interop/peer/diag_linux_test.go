package peer

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"
)

func TestDestroyOfNoConnection(t *testing.T) {
	none := TCPConn{Local: netip.MustParseAddrPort("192.0.2.1:16385"), Remote: netip.MustParseAddrPort("192.0.2.2:1")}
	if err := destroy(none); !errors.Is(err, syscall.ENOENT) {
		t.Skipf("needs the kernel's socket monitor, and root (modprobe tcp_diag): %v", err)
	}
}

func TestListenersAreNoConnections(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
