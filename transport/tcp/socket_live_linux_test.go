//go:build live

package tcp

import (
	"net"
	"net/netip"
	"testing"

	"github.com/rds-go/rds/transport"
)

func TestSourcePortTellsPath(t *testing.T) {
	e := newEnv(t, Options{Seed: 1}, Options{})
	e.Accepted(t)
	for path := range pathModulus {
		for range 5 {
			l, err := e.A.Dial(t.Context(), e.AddrA, e.AddrB, path)
			if err != nil {
				t.Fatal(err)
			}
			if p := l.LocalAddr().Port(); int(p)%pathModulus != path {
				t.Errorf("path %d has source port %d", path, p)
			}
			l.Close(transport.Abort)
		}
	}
}

func TestSourcePortFallsBack(t *testing.T) {
	a, b := newTransport(t, Options{}), newTransport(t, Options{})
	local, remote := newAddr(), newAddr()
	if err := b.Listen(remote, func(l transport.Link) { l.Close(transport.Drain) }); err != nil {
		t.Fatal(err)
	}
	busy, err := net.Listen("tcp4", netip.AddrPortFrom(local, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	// The one port that may be chosen is taken.
	port := int(busy.Addr().(*net.TCPAddr).Port)
	a.lowPort, a.highPort = port, port
	l, err := a.Dial(t.Context(), local, remote, port%pathModulus)
	if err != nil {
		t.Fatal(err)
	}
	if int(l.LocalAddr().Port()) == port {
		t.Error("two sockets on one port")
	}
	l.Close(transport.Abort)
	if p := a.sourcePort((port + 1) % pathModulus); p != 0 {
		t.Errorf("port %d is outside the range", p)
	}
}

func TestIPv6(t *testing.T) {
	e := newEnv(t, Options{}, Options{})
	e.AddrA, e.AddrB = netip.IPv6Loopback(), netip.IPv6Loopback()
	if ln, err := net.Listen("tcp6", "[::1]:0"); err != nil {
		t.Skip("needs the address ::1 on the loopback interface: ", err)
	} else {
		_ = ln.Close()
	}
	p := e.Connect(t)
	p.A.Send(t, 10)
	p.RecB.WaitMessages(t, 1)
	if a := p.B.Link.RemoteAddr().Addr(); a != netip.IPv6Loopback() {
		t.Errorf("remote address %v", a)
	}
}
