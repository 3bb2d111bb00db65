//go:build !live

package rds

import (
	"net/netip"
	"syscall"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
)

// The search skips 0 and 1 and ends when nothing is free (net/rds/bind.c,
// rds_add_bound).
func TestBindRunsOutOfPorts(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	n := l.node(Config{})
	addr := rdstest.NewAddr()
	for port := 2; port < 1<<16; port++ {
		if port != 777 {
			l.bind(n, netip.AddrPortFrom(addr, uint16(port)))
		}
	}
	last := l.bind(n, netip.AddrPortFrom(addr, 0))
	_, err := n.Bind(netip.AddrPortFrom(addr, 0))
	rdstest.WantErr(t, "the 65,535th", err, ErrAddressInUse, syscall.EADDRINUSE)
	port := last.LocalAddrPort()
	if port.Port() != 777 {
		t.Errorf("bound %v, port 777 was free", port)
	}
	rdstest.Must(t, last.Close())
	if got := l.bind(n, netip.AddrPortFrom(addr, 0)).LocalAddrPort(); got != port {
		t.Errorf("bound %v, the free one is %v", got, port)
	}
}

func TestAddressesAreReportedUnmapped(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	n := l.node(Config{})
	s := l.bind(n, netip.MustParseAddrPort("[::ffff:127.9.8.7]:4000"))
	if got := s.LocalAddrPort().String(); got != "127.9.8.7:4000" {
		t.Error(got)
	}
	if a := s.LocalAddr(); a.Network() != "rds" || a.String() != "127.9.8.7:4000" {
		t.Errorf("%s %s", a.Network(), a)
	}
}
