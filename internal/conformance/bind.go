package conformance

import (
	"context"
	"net"
	"net/netip"
	"syscall"

	"github.com/rds-go/rds/rds"
)

var bindCases = []test{
	{"bind/port 0", func(l *lab) {
		ports := make(map[uint16]bool)
		for range 50 {
			a := l.near().LocalAddrPort()
			if a.Addr() != l.NearAddr || a.Port() < 2 || ports[a.Port()] {
				l.Errorf("bound to %v", a)
			}
			ports[a.Port()] = true
		}
	}},
	{"bind/taken", func(l *lab) {
		s := l.near()
		_, err := l.Near.Bind(s.LocalAddrPort())
		l.fails("second bind", err, rds.ErrAddressInUse, syscall.EADDRINUSE)
		l.must(s.Close())
		l.bind(l.Near, l.NearAddr, s.LocalAddrPort().Port())
	}},
	{"bind/same port of two addresses", func(l *lab) {
		port := l.near().LocalAddrPort().Port()
		if a := l.bind(l.Near, l.Other, port).LocalAddrPort(); a != netip.AddrPortFrom(l.Other, port) {
			l.Error(a)
		}
	}},
	{"bind/refusals", func(l *lab) {
		for _, c := range []struct {
			to   netip.AddrPort
			want error
		}{
			{netip.MustParseAddrPort("0.0.0.0:4000"), syscall.EINVAL},
			{netip.MustParseAddrPort("[::]:4000"), syscall.EINVAL},
			{netip.MustParseAddrPort("224.0.0.1:4000"), syscall.EINVAL},
			{netip.MustParseAddrPort("255.255.255.255:4000"), syscall.EINVAL},
			{netip.AddrPortFrom(l.NearAddr, 1), syscall.EINVAL},
			{netip.AddrPortFrom(l.Foreign, 4000), syscall.EADDRNOTAVAIL},
			{netip.AddrPortFrom(l.Foreign, 0), syscall.EADDRNOTAVAIL},
		} {
			s, err := l.Near.Bind(c.to)
			l.fails(c.to.String(), err, c.want)
			if s != nil {
				_ = s.Close()
			}
		}
	}},
	{"bind/mapped address", func(l *lab) {
		s := l.bind(l.Near, netip.AddrFrom16(l.NearAddr.As16()), 0)
		if a := s.LocalAddrPort().Addr(); a != l.NearAddr {
			l.Error(a)
		}
	}},
	{"bind/names", func(l *lab) {
		s := l.near()
		if a, ok := s.LocalAddr().(rds.Addr); !ok || a.Network() != "rds" || netip.AddrPort(a) != s.LocalAddrPort() {
			l.Errorf("%v", s.LocalAddr())
		}
		if s.RemoteAddrPort().IsValid() {
			l.Errorf("remote address %v", s.RemoteAddrPort())
		}
	}},
	{"bind/after the provider's close", func(l *lab) {
		s := l.near()
		blocked := start(func() error { _, err := s.Recv(context.Background()); return err })
		l.must(l.Near.Close())
		l.fails("a blocked Recv", l.end("Recv", blocked), net.ErrClosed)
		_, err := l.Near.Bind(netip.AddrPortFrom(l.NearAddr, 0))
		l.fails("bind", err, net.ErrClosed)
		_, err = l.Near.Bind(netip.AddrPortFrom(l.Other, 0))
		l.fails("bind elsewhere", err, net.ErrClosed)
		_, err = s.Recv(l.patient())
		l.fails("Recv", err, net.ErrClosed)
		l.fails("Send", s.Send(l.patient(), s.LocalAddrPort(), nil), net.ErrClosed)
		l.fails("Close", s.Close(), net.ErrClosed)
		l.fails("second Close", l.Near.Close(), net.ErrClosed)
	}},
	{"connect/refusals", func(l *lab) {
		s := l.near()
		for to, want := range map[string]error{
			"0.0.0.0:4000": syscall.EDESTADDRREQ, "224.0.0.1:4000": syscall.EINVAL, "255.255.255.255:4000": syscall.EINVAL,
		} {
			l.fails(to, s.Connect(netip.MustParseAddrPort(to)), want)
		}
		l.fails("nothing", s.Connect(netip.AddrPort{}), syscall.EDESTADDRREQ)
		if to := s.RemoteAddrPort(); to.IsValid() {
			l.Errorf("connected to %v", to)
		}
		_, err := s.Write([]byte("x"))
		l.fails("Write", err, rds.ErrNotConnected, syscall.ENOTCONN)
	}},
	{"connect/other family", func(l *lab) {
		s := l.near()
		err := s.Connect(netip.MustParseAddrPort("[fd00::1]:4000"))
		if l.differs() {
			l.must(err)
			return
		}
		l.fails("IPv6 from IPv4", err, notSupported...)
		if to := s.RemoteAddrPort(); to.IsValid() {
			l.Errorf("connected to %v", to)
		}
	}},
	{"connect/default destination", func(l *lab) {
		a, b := l.pair()
		c := l.far()
		for _, d := range []*rds.Socket{b, c} { // Connect may be repeated
			l.must(a.Connect(d.LocalAddrPort()))
			if got := a.RemoteAddrPort(); got != d.LocalAddrPort() {
				l.Errorf("connected to %v", got)
			}
			if _, err := a.Write([]byte("default")); err != nil {
				l.Fatal(err)
			}
			l.expect(d, "default")
		}
		l.send(a, b.LocalAddrPort(), "named")
		l.expect(b, "named")
		l.send(b, a.LocalAddrPort(), "not filtered") // a is connected to c
		l.expect(a, "not filtered")
		n, err := a.SendBatch(l.patient(), []rds.Outgoing{{Data: []byte("1")}, {Data: []byte("2"), To: b.LocalAddrPort()}, {Data: []byte("3")}})
		if n != 3 || err != nil {
			l.Fatal(n, err)
		}
		l.expect(c, "1")
		l.expect(c, "3")
		l.expect(b, "2")
	}},
	{"connect/mapped address", func(l *lab) {
		a, b := l.pair()
		to := b.LocalAddrPort()
		l.must(a.Connect(netip.AddrPortFrom(netip.AddrFrom16(to.Addr().As16()), to.Port())))
		if got := a.RemoteAddrPort(); got != to {
			l.Error(got)
		}
		if _, err := a.Write([]byte("x")); err != nil {
			l.Fatal(err)
		}
		l.expect(b, "x")
	}},
}
