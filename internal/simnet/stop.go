package simnet

import (
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/wire"
)

// planStops has processes stop in peace while messages are sent.
func (s *Sim) planStops() {
	if !s.cfg.Scenario.Stops {
		return
	}
	for range 1 + s.rng.IntN(4) {
		s.after(s.upTo(s.cfg.Scenario.spread), func() { pick(s, s.hosts).stop() })
	}
}

// stop ends h's process as package rds ends one in peace, and begins another one. Two that
// stop at the same time would wait for each other's ports.
func (h *host) stop() {
	s := h.s
	for _, o := range s.hosts {
		if o.down || o.leaving {
			return
		}
	}
	if h.bad || h.linux {
		return
	}
	s.tracef("%v begins to stop", h)
	h.leaving = true
	for _, k := range h.sockets() {
		k.pending, k.left = nil, 0
	}
	h.mapChanged()
	h.until(func(k *sock) bool { return k.acct.Messages() == 0 }, func(*peer) bool { return true }, func() {
		for _, k := range h.sockets() {
			k.abandon()
		}
		h.unlistened = true
		h.retire()
	})
}

// retire asks all peers, and then ends all links.
func (h *host) retire() {
	anySock := func(*sock) bool { return true }
	depart := func() {
		h.eachPeer(func(p *peer) { p.Core.Depart() })
		h.until(anySock, func(p *peer) bool { return p.Linked() == 0 }, h.stopped)
	}
	if h.s.rigged(SkipSurvey, 1) {
		depart()
		return
	}
	h.eachPeer(func(p *peer) { p.Core.Retire() })
	h.until(anySock, func(p *peer) bool { return !p.Core.Dialing() && p.Core.Retired() }, depart)
}

// stopped replaces the process, whose links have ended.
func (h *host) stopped() {
	s := h.s
	s.counts.Stops++
	h.kill(true, false)
	s.after(s.upTo(500*time.Millisecond), func() {
		h.boot()
		h.bindAll(s.rng.IntN(1 + s.cfg.Scenario.messages))
	})
}

// eachPeer does something to each core of h.
func (h *host) eachPeer(fn func(*peer)) {
	for _, p := range h.peers {
		if p != nil {
			p.with(func() { fn(p) })
		}
	}
}

// until calls then once all sockets and peers of h are as they should be, or have been
// waited for long enough; never if the process has been killed meanwhile.
func (h *host) until(sock func(*sock) bool, peer func(*peer) bool, then func()) {
	inc, late := h.incarnation, h.s.now+20*time.Second
	if !h.s.cfg.Scenario.Calm {
		late = h.s.now + h.s.upTo(500*time.Millisecond)
	}
	ready := func() bool {
		ok := true
		for _, k := range h.sockets() {
			ok = ok && sock(k)
		}
		for _, p := range h.peers {
			ok = ok && (p == nil || peer(p))
		}
		return ok
	}
	var look func()
	look = func() {
		switch {
		case h.incarnation != inc || !h.leaving:
		case ready() || h.s.now > late:
			then()
		default:
			h.s.after(time.Millisecond, func() { h.awake(look) })
		}
	}
	look()
}

// abandon gives up what the socket has sent, whose fate stays unknown.
func (k *sock) abandon() {
	s := k.h.s
	for _, m := range s.check.messages {
		m.abandoned = m.abandoned || m.from == k && m.toInc > 0
	}
	for _, p := range k.h.peers {
		if p == nil {
			continue
		}
		s.check.picked(p)
		p.with(func() {
			if s.rigged(CancelAbandoned, 1) {
				p.Core.Cancel(&k.acct, 0, true)
			} else {
				p.Core.Abandon(&k.acct)
			}
		})
	}
	if n := k.acct.Messages(); n != 0 {
		s.check.failf("%v: all was abandoned, and %d messages are left", k, n)
	}
}

// localMap is the congestion map of h. A process that stops takes no messages.
func (h *host) localMap(m *wire.CongestionMap) {
	if *m = h.cmap; h.leaving {
		for i := range h.s.cfg.Scenario.sockets {
			m.Set(uint16(firstPort + i))
		}
	}
}

// once checks, in a run without faults, that a message has come once, whoever has stopped.
func (c *checker) once(m *message) {
	if m.toInc > 0 && !m.cancels && len(m.got) != 1 {
		c.failf("%v was delivered %d times (told %v %d)", m, len(m.got), m.fated, m.fate)
	}
	if m.fated && m.fate != conn.Success {
		c.failf("%v: told %v", m, m.fate)
	}
}
