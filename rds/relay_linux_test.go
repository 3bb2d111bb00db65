package rds

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"
)

// relay is a network between two nodes that a test disturbs: each of them takes the
// relay for the other. On its ports it forwards, refuses, or drops SYNs. It has
// acknowledged what it forwards: connections over TCP may not be cut, or messages are
// lost that nobody can know of.
type relay struct {
	testing.TB
	near, far netip.Addr                // the nodes; near dials, as its address is smaller than there
	through   func(io.Reader) io.Reader // what bytes pass through; nil: nothing
	there     netip.Addr                // what near takes for the far node
	here      netip.Addr                // what the far node takes for near
	ports     []*relayPort
	work      sync.WaitGroup

	mu    sync.Mutex
	over  bool
	conns map[*net.TCPConn]int // 1: of XRC
}

// relayPort is one port, of one of the relay's addresses.
type relayPort struct {
	at, from, to netip.AddrPort
	xrc          int // 1: for XRC

	mu   sync.Mutex
	ln   *net.TCPListener
	full []net.Conn // connections that fill the backlog
}

// newRelay makes a relay and the addresses of the nodes.
func newRelay(l *lab) *relay { return newFilter(l, nil) }

// newFilter is newRelay with something that bytes pass through.
func newFilter(l *lab, through func(io.Reader) io.Reader) *relay {
	r := &relay{TB: l, through: through, near: newAddr(), there: newAddr(), here: newAddr(), far: newAddr(), conns: make(map[*net.TCPConn]int)}
	for xrc, port := range []uint16{l.port, l.port ^ 1} {
		at := func(a netip.Addr) netip.AddrPort { return netip.AddrPortFrom(a, port) }
		r.ports = append(r.ports,
			&relayPort{at: at(r.there), from: addrOf(r.here, 0), to: at(r.far), xrc: xrc},
			&relayPort{at: at(r.here), from: addrOf(r.there, 0), to: at(r.near), xrc: xrc})
	}
	r.forward(0)
	r.forward(1)
	l.Cleanup(r.end)
	return r
}

// forward has the relay's ports of a transport forward connections.
func (r *relay) forward(xrc int) {
	r.Helper()
	r.refuse(xrc)
	for _, p := range r.ports {
		if p.xrc == xrc {
			p.mu.Lock()
			p.listen(r)
			ln := p.ln
			p.mu.Unlock()
			r.work.Go(func() { r.accept(p, ln) })
		}
	}
}

func (p *relayPort) listen(r *relay) {
	ln, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(p.at))
	if err != nil {
		r.Fatal(err)
	}
	p.ln = ln
}

// refuse has them refuse connections. Those that there are stay.
func (r *relay) refuse(xrc int) {
	for _, p := range r.ports {
		if p.xrc != xrc {
			continue
		}
		p.mu.Lock()
		if p.ln != nil {
			_ = p.ln.Close()
		}
		for _, c := range p.full {
			_ = c.Close()
		}
		p.ln, p.full = nil, nil
		p.mu.Unlock()
	}
}

// drop has them drop SYNs, as a listener does whose backlog is full. The connections that
// there are stay.
func (r *relay) drop(xrc int) {
	r.Helper()
	r.refuse(xrc)
	for _, p := range r.ports {
		if p.xrc != xrc {
			continue
		}
		p.mu.Lock()
		p.listen(r)
		raw, err := p.ln.SyscallConn()
		if err == nil {
			err = errors.Join(raw.Control(func(fd uintptr) { err = syscall.Listen(int(fd), 0) }), err)
		}
		if err != nil {
			r.Fatal(err)
		}
		d := net.Dialer{Timeout: 100 * time.Millisecond}
		for err == nil {
			var c net.Conn
			if c, err = d.Dial("tcp4", p.at.String()); err == nil {
				p.full = append(p.full, c)
			}
		}
		p.mu.Unlock()
	}
}

func (r *relay) accept(p *relayPort, ln *net.TCPListener) {
	for {
		c, err := ln.AcceptTCP()
		if err != nil {
			return
		}
		if !r.enter(c, p.xrc) {
			return
		}
		r.work.Go(func() { r.join(p, c) })
	}
}

// enter notes a connection, unless the test is over.
func (r *relay) enter(c *net.TCPConn, xrc int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		_ = c.Close()
		return false
	}
	r.conns[c] = xrc
	return true
}

// join connects on, from a port that is the same modulo 8: it tells the path.
func (r *relay) join(p *relayPort, c *net.TCPConn) {
	defer r.leave(c)
	residue := c.RemoteAddr().(*net.TCPAddr).Port % 8
	var out net.Conn
	var err error
	for range 50 {
		d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(p.from.Addr(), uint16(33000+8*rand.IntN(3300)+residue)))}
		if out, err = d.DialContext(context.Background(), "tcp4", p.to.String()); err == nil || !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EADDRNOTAVAIL) {
			break
		}
	}
	if err != nil {
		reset(c)
		return
	}
	o := out.(*net.TCPConn)
	if !r.enter(o, p.xrc) {
		return
	}
	defer r.leave(o)
	var both sync.WaitGroup
	both.Go(func() { r.pump(c, o) })
	both.Go(func() { r.pump(o, c) })
	both.Wait()
}

func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

// pump passes on bytes, an end, or a reset.
func (r *relay) pump(from, to *net.TCPConn) {
	in := io.Reader(from)
	if r.through != nil {
		in = r.through(from)
	}
	switch _, err := io.Copy(to, in); err {
	case nil:
		_ = to.CloseWrite()
	default:
		reset(from)
		reset(to)
	}
}

func (r *relay) leave(c *net.TCPConn) {
	_ = c.Close()
	r.mu.Lock()
	delete(r.conns, c)
	r.mu.Unlock()
}

// cut resets the connections of a transport.
func (r *relay) cut(xrc int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c, x := range r.conns {
		if x == xrc {
			reset(c)
		}
	}
}

func (r *relay) end() {
	r.mu.Lock()
	r.over = true
	r.mu.Unlock()
	r.refuse(0)
	r.refuse(1)
	r.cut(0)
	r.cut(1)
	r.work.Wait()
}
