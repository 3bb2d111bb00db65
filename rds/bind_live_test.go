//go:build live

package rds

import (
	"net"
	"net/netip"
	"syscall"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
)

// Errors of bind(2) on an RDS socket (net/rds/bind.c, rds_bind).
func TestBindRefusals(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.node(Config{})
	taken := l.bind(n).LocalAddrPort()
	for _, c := range []struct {
		name, addr string
		want       []error
	}{
		{"wildcard", "0.0.0.0:4000", []error{ErrInvalid, syscall.EINVAL}},
		{"IPv6 wildcard", "[::]:4000", []error{ErrInvalid, syscall.EINVAL}},
		{"multicast", "224.0.0.1:4000", []error{ErrInvalid, syscall.EINVAL}},
		{"IPv6 multicast", "[ff02::1]:4000", []error{ErrInvalid, syscall.EINVAL}},
		{"broadcast", "255.255.255.255:4000", []error{ErrInvalid, syscall.EINVAL}},
		{"mapped wildcard", "[::ffff:0.0.0.0]:4000", []error{ErrInvalid, syscall.EINVAL}},
		{"port of probes", netip.AddrPortFrom(taken.Addr(), 1).String(), []error{ErrInvalid, syscall.EINVAL}},
		{"port of probes at a new address", netip.AddrPortFrom(rdstest.NewAddr(), 1).String(), []error{ErrInvalid, syscall.EINVAL}},
		{"port taken", taken.String(), []error{ErrAddressInUse, syscall.EADDRINUSE}},
		{"port taken, address mapped", "[::ffff:" + taken.Addr().String() + "]:4000", []error{ErrAddressInUse, syscall.EADDRINUSE}},
		{"foreign address", "203.0.113.7:4000", []error{ErrAddressNotAvailable, syscall.EADDRNOTAVAIL}},
		{"foreign IPv6 address", "[2001:db8::7]:4000", []error{ErrAddressNotAvailable, syscall.EADDRNOTAVAIL}},
	} {
		s, err := n.Bind(netip.MustParseAddrPort(c.addr))
		if err == nil {
			t.Errorf("%s: bound %v", c.name, s.LocalAddrPort())
			continue
		}
		rdstest.WantErr(t, c.name, err, c.want...)
	}
}

func TestBindTellsAnotherProcessOwnsThePort(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	addr := rdstest.NewAddr()
	ln, err := net.Listen("tcp4", netip.AddrPortFrom(addr, l.Port).String())
	rdstest.Must(t, err)
	n := l.node(Config{})
	at := netip.AddrPortFrom(addr, 4000)
	_, err = n.Bind(at)
	rdstest.WantErr(t, "bind", err, ErrAddressInUse, syscall.EADDRINUSE)
	_ = ln.Close()
	s, err := n.Bind(at) // and nothing of the failure remains
	rdstest.Must(t, err)
	rdstest.MustSend(t, s, at, []byte("self"))
	rdstest.Expect(t, s, "self")
}

func TestAddressesAreListenedOnAtStart(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	addr := rdstest.NewAddr()
	l.node(Config{Addresses: []netip.Addr{addr}})
	c, err := net.Dial("tcp4", netip.AddrPortFrom(addr, l.Port).String())
	rdstest.Must(t, err)
	_ = c.Close()

	_, err = NewNode(Config{Port: l.Port, Addresses: []netip.Addr{rdstest.NewAddr(), addr}})
	rdstest.WantErr(t, "second node of an address", err, ErrAddressInUse, syscall.EADDRINUSE)
}
