package rdstest

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/wire"
)

// RawPeer is a host that speaks RDS over TCP by hand, so that it can misbehave.
type RawPeer struct {
	testing.TB
	Addr netip.Addr
	port uint16
}

// Raw makes a peer for the nodes of the lab.
func (l *Lab) Raw() *RawPeer { return &RawPeer{TB: l.TB, Addr: NewAddr(), port: l.Port} }

// Dial connects to a node, for which this peer is the smaller address.
func (p *RawPeer) Dial(to netip.Addr) *Raw {
	p.Helper()
	if !p.Addr.Less(to) {
		p.Fatalf("%v is not smaller than %v: make the raw peer first", p.Addr, to)
	}
	r, err := p.TryDial(to)
	if err != nil {
		p.Fatal(err)
	}
	return r
}

func (p *RawPeer) TryDial(to netip.Addr) (*Raw, error) {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(p.Addr, 0))}
	c, err := d.DialContext(ctx, "tcp4", netip.AddrPortFrom(to, p.port).String())
	if err != nil {
		return nil, err
	}
	return p.Conn(c), nil
}

func (p *RawPeer) Conn(c net.Conn) *Raw {
	_ = c.SetReadDeadline(time.Now().Add(Patience))
	p.Cleanup(func() { _ = c.Close() })
	return &Raw{TB: p.TB, Conn: c, Seq: 1, Hs: wire.Handshake{HasPaths: true, Paths: 1}}
}

// RawListener is where nodes connect to a RawPeer.
type RawListener struct {
	*RawPeer
	*net.TCPListener
}

// Listen waits for a node, for which this peer is the larger address.
func (p *RawPeer) Listen() RawListener {
	p.Helper()
	ln, err := net.Listen("tcp4", netip.AddrPortFrom(p.Addr, p.port).String())
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = ln.Close() })
	return RawListener{p, ln.(*net.TCPListener)}
}

func (l RawListener) Accept() *Raw {
	l.Helper()
	_ = l.SetDeadline(time.Now().Add(Patience))
	c, err := l.TCPListener.Accept()
	if err != nil {
		l.Fatal(err)
	}
	return l.Conn(c)
}
