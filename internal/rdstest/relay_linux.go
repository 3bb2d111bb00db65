package rdstest

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

// Relay is a network between two nodes that a test disturbs: each of them takes the
// relay for the other. On its ports it forwards, refuses, or drops SYNs. It has
// acknowledged what it forwards: connections over TCP may not be cut, or messages are
// lost that nobody can know of. It holds little, so that a node that ends a connection has
// had all of it in the time that it waits for.
type Relay struct {
	testing.TB
	Near, Far netip.Addr                // the nodes; near dials, as its address is smaller than there
	Through   func(io.Reader) io.Reader // what bytes pass through; nil: nothing
	There     netip.Addr                // what near takes for the far node
	Here      netip.Addr                // what the far node takes for near
	Ports     []*RelayPort
	work      sync.WaitGroup

	mu    sync.Mutex
	over  bool
	Conns map[*net.TCPConn]int // 1: of XRC
}

// relayBuffer is the size of each buffer of a connection.
const relayBuffer = 64 << 10

// RelayPort is one port, of one of the relay's addresses.
type RelayPort struct {
	At, From, To netip.AddrPort
	Xrc          int // 1: for XRC

	mu   sync.Mutex
	ln   *net.TCPListener
	full []net.Conn // connections that fill the backlog
}

// Forward has the relay's ports of a transport forward connections.
func (r *Relay) Forward(xrc int) {
	r.Helper()
	r.Refuse(xrc)
	for _, p := range r.Ports {
		if p.Xrc == xrc {
			p.mu.Lock()
			p.listen(r)
			ln := p.ln
			p.mu.Unlock()
			r.work.Go(func() { r.accept(p, ln) })
		}
	}
}

func (p *RelayPort) listen(r *Relay) {
	ln, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(p.At))
	Must(r, err)
	p.ln = ln
}

// Refuse has them refuse connections. Those that there are stay.
func (r *Relay) Refuse(xrc int) {
	for _, p := range r.Ports {
		if p.Xrc != xrc {
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

// Drop has them drop SYNs, as a listener does whose backlog is full. The connections that
// there are stay.
func (r *Relay) Drop(xrc int) {
	r.Helper()
	r.Refuse(xrc)
	for _, p := range r.Ports {
		if p.Xrc != xrc {
			continue
		}
		p.mu.Lock()
		p.listen(r)
		raw, err := p.ln.SyscallConn()
		if err == nil {
			err = errors.Join(raw.Control(func(fd uintptr) { err = syscall.Listen(int(fd), 0) }), err)
		}
		Must(r, err)
		d := net.Dialer{Timeout: 100 * time.Millisecond}
		for err == nil {
			var c net.Conn
			if c, err = d.Dial("tcp4", p.At.String()); err == nil {
				p.full = append(p.full, c)
			}
		}
		p.mu.Unlock()
	}
}

func (r *Relay) accept(p *RelayPort, ln *net.TCPListener) {
	for {
		c, err := ln.AcceptTCP()
		if err != nil {
			return
		}
		if !r.enter(c, p.Xrc) {
			return
		}
		r.work.Go(func() { r.join(p, c) })
	}
}

// enter notes a connection, unless the test is over.
func (r *Relay) enter(c *net.TCPConn, xrc int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		_ = c.Close()
		return false
	}
	r.Conns[c] = xrc
	_ = c.SetReadBuffer(relayBuffer)
	_ = c.SetWriteBuffer(relayBuffer)
	return true
}

// join connects on, from a port that is the same modulo 8: it tells the path.
func (r *Relay) join(p *RelayPort, c *net.TCPConn) {
	defer r.leave(c)
	residue := c.RemoteAddr().(*net.TCPAddr).Port % 8
	var out net.Conn
	var err error
	for range 50 {
		d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(p.From.Addr(), uint16(33000+8*rand.IntN(3300)+residue)))}
		if out, err = d.DialContext(context.Background(), "tcp4", p.To.String()); err == nil || !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EADDRNOTAVAIL) {
			break
		}
	}
	if err != nil {
		reset(c)
		return
	}
	o := out.(*net.TCPConn)
	if !r.enter(o, p.Xrc) {
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
func (r *Relay) pump(from, to *net.TCPConn) {
	in := io.Reader(from)
	if r.Through != nil {
		in = r.Through(from)
	}
	switch _, err := io.Copy(to, in); err {
	case nil:
		_ = to.CloseWrite()
	default:
		reset(from)
		reset(to)
	}
}

func (r *Relay) leave(c *net.TCPConn) {
	_ = c.Close()
	r.mu.Lock()
	delete(r.Conns, c)
	r.mu.Unlock()
}

// Cut resets the connections of a transport.
func (r *Relay) Cut(xrc int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c, x := range r.Conns {
		if x == xrc {
			reset(c)
		}
	}
}

func (r *Relay) End() {
	r.mu.Lock()
	r.over = true
	r.mu.Unlock()
	r.Refuse(0)
	r.Refuse(1)
	r.Cut(0)
	r.Cut(1)
	r.work.Wait()
}
