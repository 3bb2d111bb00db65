package simnet

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
)

// planHolds has ports held and let go until calmAt and a little longer.
func (s *Sim) planHolds(calmAt time.Duration) {
	if !s.cfg.Scenario.Holds {
		return
	}
	for range 4 + s.rng.IntN(24) {
		s.after(s.upTo(calmAt), func() {
			h := pick(s, s.hosts)
			to := pick(s, s.hosts)
			if h.down || h == to {
				return
			}
			p := h.peer(to)
			ports := s.somePorts()
			h.awake(func() { p.hold(ports, true) })
			s.after(s.upTo(time.Second), func() { h.awake(func() { p.hold(ports, false) }) })
		})
	}
}

// somePorts is half of the ports, more or less.
func (s *Sim) somePorts() (ports []uint16) {
	for i := range s.cfg.Scenario.sockets {
		if s.chance(0.5) {
			ports = append(ports, uint16(firstPort+i))
		}
	}
	return ports
}

// hold tells the core that ports of the peer take nothing, or do again.
func (p *peer) hold(ports []uint16, on bool) {
	if p.dead {
		return
	}
	s := p.h.s
	s.tracef("%v->%v ports %v held=%v", p.h, p.remote, ports, on)
	if p.held == nil {
		p.held = map[uint16]bool{}
	}
	for _, port := range ports {
		p.held[port] = on
	}
	p.with(func() {
		if !on || !s.rigged(IgnoreHolds, 1) {
			p.Core.Hold(ports, on)
		}
	})
}

// letGo lets go all that is held.
func (p *peer) letGo() {
	if len(p.held) > 0 {
		p.hold(slices.Sorted(maps.Keys(p.held)), false)
	}
}

// lostHolds follows the loss of a link: what the peer has said on it may be
// forgotten with it, or not.
func (p *peer) lostHolds() {
	if s := p.h.s; s.cfg.Scenario.Holds && s.chance(0.5) {
		p.letGo()
	}
}

// eachPeer calls fn with each connection of a process that lives.
func (s *Sim) eachPeer(fn func(*peer)) {
	for _, h := range s.hosts {
		for _, p := range h.peers {
			if p != nil && !p.dead {
				fn(p)
			}
		}
	}
}

// holdHalf has half of the ports of every peer held.
func (s *Sim) holdHalf() {
	s.halved = true
	s.eachPeer(func(p *peer) {
		p.letGo()
		p.hold(s.somePorts(), true)
	})
}

// letGo ends what holdHalf has begun, and counts.
func (s *Sim) letGo() {
	s.halved = false
	s.eachPeer(func(p *peer) {
		s.counts.Held += int(p.Core.Counters().Held)
		p.letGo()
	})
	for _, again := range s.tired {
		s.after(0, again)
	}
}

// patience is how often a socket tries to send while half of the ports are held:
// what is held back may have used up its send buffer, or the budget.
const patience = 100

// retry has k send again once what has refused its message may have changed.
func (k *sock) retry() {
	s := k.h.s
	again := func() { k.h.awake(k.send) }
	p := k.h.peer(k.pending.route.to)
	k.tries++
	switch {
	case p.held[k.pending.route.port]:
		p.waiting = append(p.waiting, func() { s.after(0, again) })
	case s.halved && k.tries > patience:
		s.tired = append(s.tired, again)
	default:
		s.after(time.Millisecond+s.upTo(20*time.Millisecond), again)
	}
}

// wake has everybody try again who waits for p.
func (p *peer) wake() {
	woken := p.waiting
	p.waiting = nil
	for _, fn := range woken {
		fn()
	}
}

// half checks, while half of the ports are held and nothing happens any more,
// that the messages to the others have arrived.
func (c *checker) half() {
	for _, m := range c.messages {
		if p := m.from.h.peers[m.route.to.index]; p == nil || !p.held[m.route.port] {
			c.message(m)
		}
	}
}

// expired checks, while nothing happens any more, that no message waits whose time is over.
func (c *checker) expired() {
	for _, m := range c.messages {
		if m.limit > 0 && m.toInc > 0 && m.notify && m.from.alive && !m.fated && !m.shown {
			c.failf("%v waits, and its time is over", m)
		}
	}
}

// judged checks that the core has taken or refused m as it had to.
func (c *checker) judged(p *peer, m *message, err error) {
	held := p.held[m.route.port] && !m.forced
	congested := errors.Is(err, conn.ErrCongested)
	switch {
	case err == nil && held:
		c.failf("%v accepted for a port that takes nothing", m)
	case congested && (m.forced || !held && !p.Core.Congested(m.route.port)):
		c.failf("%v refused, and its port is free", m)
	}
}

// shown checks that what a transmitter is shown for the first time is for ports
// that take something. On path 0, what was sent before a handshake for more paths
// goes on: they wait for it.
func (c *checker) shown(e *end, frames []transport.Frame) {
	p := e.p
	first := func(m *message) {
		switch {
		case m.shown, m.early && p.Core.Paths() > 1, c.s.cfg.Scenario.Impostors && e.path == 0: // an impostor may have stated fewer paths
		case p.held[m.route.port]:
			c.failf("%v is written, and its port takes nothing", m)
		case p.marked != nil && p.marked.Congested(m.route.port):
			c.failf("%v is written, and its port is congested", m)
		}
		m.shown = true
	}
	for i := range frames {
		if len(frames[i].Ops) == 0 || i == 0 && e.bound {
			continue
		}
		o := frames[i].Ops[0].Owner.(*operation)
		first(o.m)
		if o.stale() {
			c.failf("%v: its operation was for an earlier generation", o.m)
		}
	}
	e.each(first)
}

// each calls fn with the messages of the Send under way that have not begun.
func (e *end) each(fn func(*message)) {
	var h wire.Header
	for pos := e.track.need; h.Decode(e.sending[min(pos, len(e.sending)):]) == nil; pos += wire.HeaderSize + int(h.Length) {
		if !h.IsCongestion() && h.Length >= 8 {
			fn(e.t.s.check.messages[binary.BigEndian.Uint64(e.sending[pos+wire.HeaderSize:])-1])
		}
	}
}
