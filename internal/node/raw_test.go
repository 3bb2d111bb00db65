package node

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/wire"
)

// rawPeer is a host that speaks RDS over TCP by hand, so that it can misbehave.
type rawPeer struct {
	*lab
	addr netip.Addr
}

func (l *lab) raw() *rawPeer { return &rawPeer{lab: l, addr: rdstest.NewAddr()} }

// dial connects to a node, for which this peer is the smaller address.
func (p *rawPeer) dial(to netip.Addr) *rdstest.Raw {
	p.Helper()
	if !p.addr.Less(to) {
		p.Fatalf("%v is not smaller than %v: make the raw peer first", p.addr, to)
	}
	r, err := p.tryDial(to)
	if err != nil {
		p.Fatal(err)
	}
	return r
}

func (p *rawPeer) tryDial(to netip.Addr) (*rdstest.Raw, error) {
	ctx, cancel := context.WithTimeout(context.Background(), rdstest.Patience)
	defer cancel()
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(p.addr, 0))}
	c, err := d.DialContext(ctx, "tcp4", netip.AddrPortFrom(to, p.port).String())
	if err != nil {
		return nil, err
	}
	return p.conn(c), nil
}

func (p *rawPeer) conn(c net.Conn) *rdstest.Raw {
	_ = c.SetReadDeadline(time.Now().Add(rdstest.Patience))
	p.Cleanup(func() { _ = c.Close() })
	return &rdstest.Raw{TB: p, Conn: c, Seq: 1, Hs: wire.Handshake{HasPaths: true, Paths: 1}}
}

// rawListener is where nodes connect to a rawPeer.
type rawListener struct {
	*rawPeer
	*net.TCPListener
}

// listen waits for a node, for which this peer is the larger address.
func (p *rawPeer) listen() rawListener {
	p.Helper()
	ln, err := net.Listen("tcp4", netip.AddrPortFrom(p.addr, p.port).String())
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = ln.Close() })
	return rawListener{p, ln.(*net.TCPListener)}
}

func (l rawListener) accept() *rdstest.Raw {
	l.Helper()
	_ = l.SetDeadline(time.Now().Add(rdstest.Patience))
	c, err := l.Accept()
	if err != nil {
		l.Fatal(err)
	}
	return l.conn(c)
}
