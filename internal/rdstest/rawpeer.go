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
	raw  sockets
}

// Conn is a connection over TCP, of the host or in memory.
type Conn interface {
	net.Conn
	SetLinger(seconds int) error
	SetReadBuffer(bytes int) error
}

type listener interface {
	net.Listener
	SetDeadline(t time.Time) error
}

// sockets makes the sockets of a RawPeer.
type sockets struct {
	dial   func(ctx context.Context, from, to netip.AddrPort) (Conn, error)
	listen func(at netip.AddrPort) (listener, error)
}

var hostSockets = sockets{
	dial: func(ctx context.Context, from, to netip.AddrPort) (Conn, error) {
		c, err := new(net.Dialer).DialTCP(ctx, "tcp4", from, to)
		return c, err
	},
	listen: func(at netip.AddrPort) (listener, error) { return net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(at)) },
}

// Raw makes a peer for the nodes of the lab.
func (l *Lab) Raw() *RawPeer { return &RawPeer{TB: l.TB, Addr: NewAddr(), port: l.Port, raw: l.raw} }

// Dial connects to a node, for which this peer is the smaller address.
func (p *RawPeer) Dial(to netip.Addr) *Raw {
	p.Helper()
	if !p.Addr.Less(to) {
		p.Fatalf("%v is not smaller than %v: make the raw peer first", p.Addr, to)
	}
	r, err := p.TryDial(to)
	Must(p, err)
	return r
}

func (p *RawPeer) TryDial(to netip.Addr) (*Raw, error) {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	c, err := p.raw.dial(ctx, netip.AddrPortFrom(p.Addr, 0), netip.AddrPortFrom(to, p.port))
	if err != nil {
		return nil, err
	}
	return p.Conn(c), nil
}

func (p *RawPeer) Conn(c Conn) *Raw {
	_ = c.SetReadDeadline(time.Now().Add(Patience))
	p.Cleanup(func() { _ = c.Close() })
	return &Raw{TB: p.TB, Conn: c, Seq: 1, Hs: wire.Handshake{HasPaths: true, Paths: 1}}
}

// RawListener is where nodes connect to a RawPeer.
type RawListener struct {
	*RawPeer
	listener
}

// Listen waits for a node, for which this peer is the larger address.
func (p *RawPeer) Listen() RawListener {
	p.Helper()
	ln, err := p.raw.listen(netip.AddrPortFrom(p.Addr, p.port))
	Must(p, err)
	p.Cleanup(func() { _ = ln.Close() })
	return RawListener{p, ln}
}

func (l RawListener) Accept() *Raw {
	l.Helper()
	r, err := l.AcceptUntil(time.Now().Add(Patience))
	Must(l, err)
	return r
}

// AcceptUntil is Accept, which fails when the time has come or the listener is closed.
func (l RawListener) AcceptUntil(end time.Time) (*Raw, error) {
	_ = l.listener.SetDeadline(end)
	c, err := l.listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.Conn(c.(Conn)), nil
}
