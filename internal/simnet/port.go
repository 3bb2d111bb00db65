package simnet

import (
	"io"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/rds-go/rds/internal/frame"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
)

// portBuffer bounds what one direction of a link holds.
const portBuffer = 128 << 10

// port is one end of a link of a Network.
type port struct {
	transport.Plain
	net           *Network
	t             *nic
	local, remote netip.AddrPort
	peer          *port
	latency       time.Duration
	cutAt         uint64 // breaks the link when this byte is written
	h             transport.Handler
	in            frame.Parser
	wake          chan struct{} // cap 1: there is something to look at
	stream        transport.Stream

	mu      sync.Mutex // the locks of both ends are never held together
	inbox   []segment  // guarded by mu; segments on their way to this end, in order
	err     error      // guarded by mu; how the connection ended, due at errAt
	errAt   time.Time  // guarded by mu
	started bool       // guarded by mu
	closing bool       // guarded by mu; draining
	half    bool       // guarded by mu; our direction was ended by a fault
	dead    bool       // guarded by mu; the socket is gone
	severed bool       // guarded by mu; bytes under way to this end were thrown away: nothing arrives behind them
	written uint64     // guarded by mu
	starved bool       // guarded by mu
	room    int        // guarded by mu; bytes the peer will take
	last    time.Time  // guarded by mu; when the last bytes written will arrive
	acks    []ack      // guarded by mu; acknowledgements that are to come
	acked   uint64     // guarded by mu
}

// segment is what arrives at one time: bytes, or the end of them.
type segment struct {
	at   time.Time
	data []byte
	fin  bool
}

type ack struct {
	at    time.Time
	total uint64
}

var _ transport.Link = (*port)(nil)

func (n *Network) newPort(t *nic, local, remote netip.AddrPort) *port {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := &port{net: n, t: t, local: local, remote: remote, cutAt: never, wake: make(chan struct{}, 1), room: portBuffer,
		latency: n.faults.Latency/2 + n.belowLocked(n.faults.Latency)}
	p.stream.Writev = p.writev
	if n.chanceLocked(n.faults.Cut) {
		p.cutAt = uint64(n.rng.IntN(n.faults.CutSize))
	}
	return p
}

func (p *port) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Start begins delivery.
func (p *port) Start(h transport.Handler) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started || p.dead {
		return transport.ErrClosed
	}
	p.started, p.h = true, h
	p.in.Init(h, &p.t.pool, wire.MaxPayload, false)
	go p.run()
	return nil
}

// Send takes what fits.
func (p *port) Send(frames []transport.Frame) (transport.Taken, error) {
	return p.stream.Send(frames)
}

func (p *port) writev(bufs [][]byte) (int, error) {
	n := p.net
	n.mu.Lock()
	delay := n.belowLocked(p.latency/4) + p.latency
	if n.chanceLocked(n.faults.Stall) {
		delay += n.belowLocked(n.faults.Silence)
	}
	half := n.chanceLocked(n.faults.Half)
	n.mu.Unlock()

	p.mu.Lock()
	if p.dead || p.closing || p.half || p.err != nil {
		p.mu.Unlock()
		return 0, transport.ErrClosed
	}
	p.half = half
	total, took := 0, 0
	var data []byte
	for _, b := range bufs {
		k := min(len(b), p.room)
		data = append(data, b[:k]...)
		p.room -= k
		took += k
		total += len(b)
	}
	p.starved = p.starved || took < total
	p.written += uint64(took)
	cut := p.written > p.cutAt
	if cut {
		data = data[:max(0, len(data)-int(p.written-p.cutAt))]
	}
	at := p.last
	if t := time.Now().Add(delay); t.After(at) {
		at = t
	}
	p.last = at
	if len(data) > 0 {
		p.acks = append(p.acks, ack{at.Add(p.peer.latency), p.written - uint64(took-len(data))})
	}
	p.mu.Unlock()

	p.peer.arrive(segment{at: at, data: data})
	switch {
	case cut:
		time.AfterFunc(time.Until(at), p.cut)
	case half:
		p.peer.arrive(segment{at: at, fin: true})
	}
	return took, nil
}

// arrive puts a segment on its way to p.
func (p *port) arrive(s segment) {
	p.mu.Lock()
	gone := p.dead || p.severed
	if !gone {
		p.inbox = append(p.inbox, s)
	}
	p.mu.Unlock()
	if gone {
		p.peer.unacked()
		p.peer.fail(syscall.ECONNRESET, p.latency)
	}
	p.poke()
}

// cut breaks the connection: nothing under way arrives, and each side learns
// of it some time. For an end it is one step: a write comes before it, and is not
// acknowledged, or finds the end broken.
func (p *port) cut() {
	for _, e := range []*port{p, p.peer} {
		e.net.mu.Lock()
		d := e.net.belowLocked(e.net.faults.Late)
		e.net.mu.Unlock()
		e.mu.Lock()
		now := time.Now()
		for i, s := range e.inbox {
			if s.at.After(now) {
				e.inbox = e.inbox[:i]
				break
			}
		}
		e.severed = true
		e.unackedLocked()
		e.failLocked(syscall.ECONNRESET, d)
		e.mu.Unlock()
		e.poke()
	}
}

// unacked forgets the acknowledgements of what has not arrived by now.
func (p *port) unacked() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unackedLocked()
}

func (p *port) unackedLocked() {
	arrived := time.Now().Add(p.peer.latency)
	for i, a := range p.acks {
		if a.at.After(arrived) {
			p.acks = p.acks[:i]
			return
		}
	}
}

// fail ends the connection for p in d; what has arrived by then is read.
func (p *port) fail(err error, d time.Duration) {
	p.mu.Lock()
	p.failLocked(err, d)
	p.mu.Unlock()
	p.poke()
}

func (p *port) failLocked(err error, d time.Duration) {
	if p.err == nil {
		p.err, p.errAt = err, time.Now().Add(d)
	}
}

// run delivers until the end.
func (p *port) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		s, next, end := p.next()
		switch {
		case end != nil:
			p.finish(end)
			return
		case s != nil:
			p.deliver(s.data)
		default:
			timer.Reset(next)
			select {
			case <-timer.C:
			case <-p.wake:
			}
		}
	}
}

// next is what to do: a segment to deliver, the end, or how long to wait.
func (p *port) next() (*segment, time.Duration, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.dead {
		return nil, 0, transport.ErrClosed
	}
	if len(p.inbox) > 0 && !p.inbox[0].at.After(now) {
		s := p.inbox[0]
		p.inbox = p.inbox[1:]
		if s.fin {
			return nil, 0, io.EOF
		}
		return &s, 0, nil
	}
	if p.err != nil && !p.errAt.After(now) {
		return nil, 0, p.err
	}
	d := time.Hour
	if len(p.inbox) > 0 {
		d = min(d, p.inbox[0].at.Sub(now))
	}
	if p.err != nil {
		d = min(d, p.errAt.Sub(now))
	}
	return nil, d, nil
}

// deliver parses data, a piece at a time and maybe late.
func (p *port) deliver(data []byte) {
	for len(data) > 0 {
		n := p.net
		n.mu.Lock()
		k, late := len(data), time.Duration(0)
		if n.rng.IntN(3) == 0 {
			k = 1 + n.rng.IntN(k)
			late = n.belowLocked(n.faults.Reading)
		}
		n.mu.Unlock()
		if late > 0 {
			time.Sleep(late)
		}
		err := p.in.Feed(data[:k])
		p.in.Flush()
		if err != nil {
			p.fail(err, 0)
			p.peer.fail(syscall.ECONNRESET, p.latency)
			return
		}
		data = data[k:]
		p.peer.took(k)
	}
}

// took says that the peer has read n bytes.
func (p *port) took(n int) {
	p.mu.Lock()
	p.room += n
	starved := p.starved && p.started && !p.dead
	p.starved = p.starved && !starved
	p.mu.Unlock()
	if starved {
		p.h.Writable()
	}
}
