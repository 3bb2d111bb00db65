package simnet

import (
	"time"

	"github.com/rds-go/rds/conn"
)

// fault does one bad thing.
func (s *Sim) fault() {
	h := pick(s, s.hosts)
	switch x := s.rng.IntN(24); {
	case x < 4:
		s.onLink(func(t *tcp) {
			s.tracef("fault: tcp%d is cut", t.id)
			t.cut(20*time.Millisecond, 20*time.Millisecond)
		})
	case x < 6:
		s.onLink(func(t *tcp) {
			s.tracef("fault: tcp%d is cut, one side learns late", t.id)
			slow, fast := 12*time.Second, 5*time.Millisecond
			if s.chance(0.5) {
				slow, fast = fast, slow
			}
			t.cut(slow, fast)
		})
	case x < 8:
		s.onLink(func(t *tcp) {
			e := t.ends[s.rng.IntN(2)]
			e.stalled = s.now + s.upTo(4*time.Second)
			s.tracef("fault: tcp%d stalls from %v", t.id, e.host)
		})
	case x < 9:
		s.onLink(func(t *tcp) {
			e := t.ends[s.rng.IntN(2)]
			s.tracef("fault: tcp%d is half closed by %v", t.id, e.h)
			e.fin()
		})
	case x < 11:
		h.frozen = max(h.frozen, s.now+s.upTo(3*time.Second))
		s.tracef("fault: %v freezes until %v", h, h.frozen)
	case x < 12:
		h.refusing = s.now + s.upTo(time.Second)
		s.tracef("fault: %v refuses until %v", h, h.refusing)
	case x < 14:
		h.rejects = s.now + s.upTo(time.Second)
		s.tracef("fault: %v accepts and closes until %v", h, h.rejects)
	case x < 16:
		if !h.down && !h.bad {
			h.restart()
		}
	case x < 20:
		if ks := h.sockets(); len(ks) > 0 && !h.down {
			k := pick(s, ks)
			to := pick(s, s.hosts)
			k.cancel(route{to, uint16(firstPort + s.rng.IntN(s.cfg.Scenario.sockets))}, s.chance(0.3))
		}
	case x < 21:
		if ks := h.sockets(); len(ks) > 0 && !h.down {
			k := pick(s, ks)
			s.tracef("fault: %v closes", k)
			k.close()
			s.after(s.upTo(100*time.Millisecond), func() {
				if !h.down && !h.leaving && h.socks[k.port] == nil {
					h.bind(k.port, s.rng.IntN(20))
				}
			})
		}
	case x < 22: // everything at once, as when a switch reboots
		s.tracef("fault: all links of %v are cut", h)
		for _, t := range s.links {
			if t.ends[0].host == h || t.ends[1].host == h {
				t.cut(30*time.Millisecond, 30*time.Millisecond)
			}
		}
	case x < 23:
		s.move(h)
	default:
		if ks := h.sockets(); len(ks) > 0 && !h.down {
			k := pick(s, ks)
			h.mark(k.port, true)
			s.after(s.upTo(time.Second), func() {
				if h.socks[k.port] == k {
					h.mark(k.port, false)
				}
			})
		}
	}
}

// move has h leave the links to one of its peers, as it does to go over to another
// transport, which no Linux peer has.
func (s *Sim) move(h *host) {
	if h.down || h.linux {
		return
	}
	to := pick(s, s.hosts)
	p := h.peers[to.index]
	if p == nil || to.linux {
		return
	}
	s.tracef("fault: %v leaves its links to %v", h, to)
	h.awake(func() {
		if p.dead {
			return
		}
		p.with(func() {
			for i := range conn.MaxPaths {
				p.Core.Leave(i)
			}
		})
	})
}

// onLink does something to a link that works.
func (s *Sim) onLink(fn func(*tcp)) {
	var live []*tcp
	for _, t := range s.links {
		if !t.broken && !t.ends[0].gone && !t.ends[1].gone {
			live = append(live, t)
		}
	}
	if len(live) > 0 {
		fn(pick(s, live))
	}
}

// restart replaces the host's process.
func (h *host) restart() {
	s := h.s
	s.check.hostDied(h)
	h.kill(s.chance(0.5), s.chance(0.3))
	s.after(s.upTo(500*time.Millisecond), func() {
		if s.chance(s.cfg.Scenario.repath) && !h.linux {
			h.paths = 9 - h.paths
		}
		h.boot()
		h.bindAll(s.rng.IntN(1 + s.cfg.Scenario.messages))
	})
}
