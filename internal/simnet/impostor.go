package simnet

import (
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/wire"
)

// planImpostors has somebody connect to hosts from the addresses of other hosts, with
// generations of its own. What a host sends while an impostor has its path is the
// impostor's, and lost. Everything else must arrive once, in order.
func (s *Sim) planImpostors(until time.Duration) {
	if !s.cfg.Scenario.Impostors {
		return
	}
	for range 1 + s.rng.IntN(40) {
		s.after(s.upTo(until), s.impostor)
	}
}

// unboundPort is a port that no host's sockets have.
const unboundPort = 60000

// impostor connects once. It states a generation and path settings, and sends messages to a
// port that nobody has, with numbers of its own. It answers nothing, and goes away some time
// later.
func (s *Sim) impostor() {
	from, to := pick(s, s.hosts), pick(s, s.hosts)
	if from == to || from.bad || to.bad || to.linux || to.down || to.unlistened || to.refusing > s.now {
		return
	}
	t := s.newTCP(from, to, s.rng.IntN(conn.MaxPaths))
	a, b := t.ends[0], t.ends[1]
	a.inc = 0 // no process of from has it
	a.cutAt, b.cutAt, a.capacity = never, never, 1<<20
	s.counts.Impostors++
	states := wire.Handshake{HasPaths: s.chance(0.9), Paths: uint16(from.paths), Generation: s.rng.Uint32() | 1, SourceIndex: from.paths > 1}
	if s.chance(0.7) {
		states.Paths, states.SourceIndex = pick(s, []uint16{1, conn.MaxPaths}), s.chance(0.5)
	}
	if s.chance(0.1) {
		states.Generation = 0
	}
	if s.cfg.Scenario.Lengths {
		states.Limit = pick(s, []wire.Limit{0, 1, 2, 3, 8, wire.LimitAll})
	}
	s.tracef("an impostor of %v connects to %v and states %+v: tcp%d", from, to, states, t.id)
	s.check.usurped[[2]*host{to, from}] = true
	say := func(h wire.Header) {
		if h.Sport == wire.PortProbe {
			states.Put(&h.Extensions)
		}
		_, _ = a.write(h.AppendTo(nil))
	}
	seq := uint64(1 + s.rng.IntN(5))
	if s.chance(0.3) {
		say(wire.Header{Sequence: seq, Sport: 4000, Dport: unboundPort})
	}
	if s.chance(0.9) {
		say(wire.Header{Sequence: seq + 1, Sport: wire.PortProbe})
		for i := range uint64(s.rng.IntN(4)) {
			say(wire.Header{Sequence: seq + 2 + i, Sport: 4000, Dport: unboundPort, Flags: []uint8{0, wire.FlagRetransmitted}[i&1]})
		}
	}
	s.after(from.s.cfg.Scenario.latency+s.upTo(time.Millisecond), func() {
		to.awake(func() {
			if to.down || b.inc != to.incarnation || to.unlistened {
				b.vanish(false)
				return
			}
			to.accept(from, b)
		})
	})
	stay := s.upTo(50 * time.Millisecond)
	if s.chance(0.3) {
		stay = s.upTo(5 * time.Second)
	}
	s.after(stay, func() {
		if s.chance(0.5) {
			a.fin()
		}
		a.vanish(false)
	})
}
