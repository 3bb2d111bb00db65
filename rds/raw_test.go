package rds

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/wire"
)

// rawPeer is a host that speaks RDS over TCP by hand, so that it can misbehave.
type rawPeer struct {
	*lab
	addr netip.Addr
}

// raw is one TCP connection of a rawPeer.
type raw struct {
	testing.TB
	net.Conn
	seq uint64
	hs  wire.Handshake // answered to probes
}

func (l *lab) raw() *rawPeer { return &rawPeer{lab: l, addr: newAddr()} }

// dial connects to a node, for which this peer is the smaller address.
func (p *rawPeer) dial(to netip.Addr) *raw {
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

func (p *rawPeer) tryDial(to netip.Addr) (*raw, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(p.addr, 0))}
	c, err := d.DialContext(ctx, "tcp4", netip.AddrPortFrom(to, p.port).String())
	if err != nil {
		return nil, err
	}
	return p.conn(c), nil
}

func (p *rawPeer) conn(c net.Conn) *raw {
	_ = c.SetReadDeadline(time.Now().Add(patience))
	p.Cleanup(func() { _ = c.Close() })
	return &raw{TB: p, Conn: c, seq: 1, hs: wire.Handshake{HasPaths: true, Paths: 1}}
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

func (l rawListener) accept() *raw {
	l.Helper()
	_ = l.SetDeadline(time.Now().Add(patience))
	c, err := l.Accept()
	if err != nil {
		l.Fatal(err)
	}
	return l.conn(c)
}

func (r *raw) write(b []byte) {
	r.Helper()
	if _, err := r.Write(b); err != nil {
		r.Fatal(err)
	}
}

// message encodes a header and its payload; Length is set if it is 0.
func message(h wire.Header, payload []byte) []byte {
	if h.Length == 0 {
		h.Length = uint32(len(payload))
	}
	return append(h.AppendTo(nil), payload...)
}

// data is the next message in sequence.
func (r *raw) data(sport, dport uint16, payload []byte) []byte {
	h := wire.Header{Sequence: r.seq, Sport: sport, Dport: dport}
	r.seq++
	return message(h, payload)
}

// probe is a probe ping that states hs.
func (r *raw) probe(hs wire.Handshake) []byte {
	h := wire.Header{Sequence: r.seq, Sport: wire.PortProbe, Dport: wire.PortHost}
	r.seq++
	hs.Put(&h.Extensions)
	return message(h, nil)
}

// congestion is a map with the given ports marked.
func congestion(ports ...uint16) []byte {
	var m wire.CongestionMap
	for _, p := range ports {
		m.Set(p)
	}
	return message(wire.Header{Flags: wire.FlagCongestion}, m[:])
}

// next reads one message of any kind.
func (r *raw) next() (h wire.Header, payload []byte, err error) {
	var b [wire.HeaderSize]byte
	if _, err = io.ReadFull(r, b[:]); err != nil {
		return h, nil, err
	}
	_ = h.Decode(b[:])
	payload = make([]byte, h.Length)
	_, err = io.ReadFull(r, payload)
	return h, payload, err
}

// nextData reads the next datagram, answering probes on the way.
func (r *raw) nextData() (wire.Header, []byte) {
	r.Helper()
	for {
		h, b, err := r.next()
		switch {
		case err != nil:
			r.Fatal(err)
		case h.IsCongestion(), h.Dport == wire.PortProbe && h.Sport == wire.PortHost:
		case h.Sport == wire.PortProbe && h.Dport == wire.PortHost:
			r.pong()
		default:
			return h, b
		}
	}
}

// pong answers a probe.
func (r *raw) pong() {
	h := wire.Header{Sequence: r.seq, Sport: wire.PortHost, Dport: wire.PortProbe}
	r.seq++
	r.hs.Put(&h.Extensions)
	r.write(message(h, nil))
}

// nextMap reads up to the next congestion map.
func (r *raw) nextMap() *wire.CongestionMap {
	r.Helper()
	for {
		h, b, err := r.next()
		if err != nil {
			r.Fatal(err)
		}
		if h.IsCongestion() {
			return (*wire.CongestionMap)(b)
		}
	}
}

// serve answers probes and hands datagrams to take until the connection ends.
func (r *raw) serve(take func(h wire.Header, b []byte)) error {
	for {
		h, b, err := r.next()
		switch {
		case err != nil:
			return err
		case h.Sport == wire.PortProbe && h.Dport == wire.PortHost:
			p := wire.Header{Sequence: r.seq, Sport: wire.PortHost, Dport: wire.PortProbe}
			r.seq++
			r.hs.Put(&p.Extensions)
			if _, err := r.Write(message(p, nil)); err != nil {
				return err
			}
		case h.IsCongestion(), h.Dport == wire.PortProbe && h.Sport == wire.PortHost:
		default:
			take(h, b)
		}
	}
}

// reset ends the connection with an RST.
func (r *raw) reset() {
	_ = r.Conn.(*net.TCPConn).SetLinger(0)
	_ = r.Conn.Close()
}

// discard reads everything until the connection ends and tells how it did.
func (r *raw) discard() error {
	_, err := io.Copy(io.Discard, r.Conn)
	return err
}

// waitEnd waits until the node has ended the connection, draining it.
func (r *raw) waitEnd() {
	r.Helper()
	if err := r.discard(); err != nil {
		var ne net.Error
		if errors.As(err, &ne) && ne.Timeout() {
			r.Fatal("the node did not end the connection")
		}
	}
}

func be64(b []byte) uint64 { return binary.BigEndian.Uint64(b) }
