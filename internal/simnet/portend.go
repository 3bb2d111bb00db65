package simnet

import (
	"net/netip"
	"syscall"
	"time"

	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
)

// Acked returns how many bytes have arrived at the peer, as known here.
func (p *port) Acked() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ackedLocked()
}

func (p *port) ackedLocked() uint64 {
	now := time.Now()
	for len(p.acks) > 0 && !p.acks[0].at.After(now) {
		p.acked = p.acks[0].total
		p.acks = p.acks[1:]
	}
	return p.acked
}

// Close ends the link, see transport.Link.
func (p *port) Close(mode transport.CloseMode) {
	p.mu.Lock()
	switch {
	case p.dead:
		p.mu.Unlock()
		return
	case !p.started:
		p.dead = true
		unread := len(p.inbox) > 0
		at := p.last
		p.mu.Unlock()
		p.peer.unacked()
		if unread || mode == transport.Abort {
			p.peer.fail(syscall.ECONNRESET, p.latency)
		} else {
			p.peer.arrive(segment{at: later(at, p.latency), fin: true})
		}
		p.t.remove(p)
		return
	case mode == transport.Abort:
		p.err, p.errAt, p.inbox, p.severed = transport.ErrClosed, time.Now(), nil, true
		p.mu.Unlock()
		p.peer.fail(syscall.ECONNRESET, p.latency)
		p.poke()
		return
	case p.closing:
		p.mu.Unlock()
		return
	}
	p.closing = true
	at := later(p.last, p.latency)
	p.last = at
	p.mu.Unlock()
	p.peer.arrive(segment{at: at, fin: true})
	time.AfterFunc(drainTime, func() { p.fail(transport.ErrDrainTimeout, 0) })
}

// later is when something sent now arrives that must not overtake.
func later(last time.Time, latency time.Duration) time.Time {
	if t := time.Now().Add(latency); t.After(last) {
		return t
	}
	return last
}

// finish closes the socket and reports the end, once.
func (p *port) finish(cause error) {
	p.mu.Lock()
	acked := p.ackedLocked()
	fin := !p.closing && cause != syscall.ECONNRESET
	at := later(p.last, p.latency)
	p.dead, p.inbox = true, nil
	p.mu.Unlock()
	p.peer.unacked()
	if fin {
		p.peer.arrive(segment{at: at, fin: true})
	}
	p.in.Reset()
	p.h.Closed(cause, acked)
	p.t.remove(p)
}

// LocalAddr returns our end.
func (p *port) LocalAddr() netip.AddrPort { return p.local }

// RemoteAddr returns the peer's end.
func (p *port) RemoteAddr() netip.AddrPort { return p.remote }

// Stats returns what rds-info -T shows.
func (p *port) Stats() transport.LinkStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return transport.LinkStats{HeaderRemaining: wire.HeaderSize, Written: p.written, Acked: p.ackedLocked()}
}
