package model

import "fmt"

// model bounds a world, and may break a rule.
type model struct {
	sessions, targets, initiators int

	frames       int   // on their way in each direction, at most window
	incarnations uint8 // incarnations of each daemon
	generations  uint8 // generations of targets, per incarnation of the daemon
	iniGens      uint8 // generations of each initiator, per incarnation of its daemon
	messages     uint8 // messages of each initiator and generation

	rules
	seen seen
}

// rules are broken where they are true.
type rules struct {
	oneListener     bool // an error is told to one of those registered
	silentRegister  bool // who registers with a target in error is not told
	eventOnRegister bool // who registers with a target in error is told, and gets an event
	lateDestroy     bool // the last to unregister destroys the target some time after
	reapByNumber    bool // a reap does not look at the generation
	noGrace         bool // a target waits for its initiator for ever
	silentEnd       bool // an initiator whose grace ends does not say so
	blindReplay     bool // after a resume everything not acknowledged is sent again
	optimist        bool // after a resume nothing is sent again
	deafToDaemons   bool // an incarnation of the initiators' daemon is not looked at
	byNumber        bool // messages name the target's number only
	resumeByNumber  bool // a resume does
	forgetsReplies  bool // a request that comes again gets a new target
}

// seen counts steps that a walk had better come across.
type seen struct {
	replays    int // a resumed initiator has messages to send again
	answered   int // ... and some that it learns have been executed
	refusals   int // a resume comes too late
	repeats    int // a request for a target comes again
	staleReaps int // a reap finds another generation, or nothing
	lateJoins  int // a session registers with a target in error
}

// action names a step, for the story of a violation.
type action struct {
	what string
	a, b int8
}

func (a action) String() string {
	switch {
	case a.a < 0:
		return a.what
	case a.b < 0:
		return fmt.Sprintf("%s %d", a.what, a.a)
	}
	return fmt.Sprintf("%s %d %d", a.what, a.a, a.b)
}

// step is one way on. Orderly steps are those that lead back to nothing: frames
// arrive, deadlines pass, initiators close, sessions read events and leave what
// is in error.
type step struct {
	action  action
	orderly bool
	to      state
	wrong   string // a property violated on the way
}

// walker lists the steps from one state.
type walker struct {
	m    *model
	from state
	out  []step
}

func (w *walker) try(orderly bool, what string, a, b int, do func(s *state) string) {
	to := w.from
	wrong := do(&to)
	w.out = append(w.out, step{action{what, int8(a), int8(b)}, orderly, w.m.canonical(to), wrong})
}

// next lists the steps from s. The result is valid until the next call.
func (w *walker) next(s state) []step {
	w.from, w.out = s, w.out[:0]
	w.sessionSteps()
	w.daemonSteps()
	w.initiatorSteps()
	w.connectionSteps()
	return w.out
}

// fail puts a target into error and tells everyone registered.
func (m *model) fail(s *state, t int) {
	s.targets[t] = target{life: failed, gen: s.targets[t].gen}
	for i := range s.sessions {
		if s.sessions[i][t] == registered {
			s.sessions[i][t] = waiting
			if m.oneListener {
				return
			}
		}
	}
}

// unregister takes a session off a target, and the target with the last one.
func (m *model) unregister(s *state, i, t int) {
	s.sessions[i][t] = stranger // with the event that may wait
	if s.holders(t) > 0 {
		return
	}
	if m.lateDestroy {
		s.doomed |= 1 << t
		return
	}
	s.targets[t] = target{}
}

func (w *walker) sessionSteps() {
	m := w.m
	for i := range m.sessions {
		some := false
		for t := range m.targets {
			tgt := &w.from.targets[t]
			switch h := w.from.sessions[i][t]; h {
			case stranger:
				if tgt.life != live && tgt.life != failed {
					continue // EINVAL
				}
				w.try(false, "register", i, t, func(s *state) string {
					s.sessions[i][t] = registered
					if tgt.life == failed {
						m.seen.lateJoins++
					}
					if tgt.life == failed && !m.silentRegister {
						s.sessions[i][t] = aware // the answer says so
						if m.eventOnRegister {
							s.sessions[i][t] = twice
						}
					}
					return ""
				})
				continue
			case waiting:
				w.try(true, "read the event", i, t, func(s *state) string {
					s.sessions[i][t] = aware
					return ""
				})
			}
			some = true
			w.try(w.from.sessions[i][t] == aware, "unregister", i, t, func(s *state) string {
				m.unregister(s, i, t)
				return ""
			})
		}
		if some {
			w.try(false, "kill session", i, -1, func(s *state) string {
				for t := range m.targets {
					if s.sessions[i][t] != stranger {
						m.unregister(s, i, t)
					}
				}
				return ""
			})
		}
	}
}

func (w *walker) daemonSteps() {
	m := w.m
	for t := range m.targets {
		tgt := &w.from.targets[t]
		if w.from.doomed>>t&1 != 0 {
			w.try(true, "destroy", t, -1, func(s *state) string {
				s.doomed &^= 1 << t
				s.targets[t] = target{}
				if n := s.holders(t); n > 0 {
					return fmt.Sprintf("target %d is destroyed under %d registrations", t, n)
				}
				return ""
			})
		}
		if tgt.life == live {
			w.try(false, "fault", t, -1, func(s *state) string { m.fail(s, t); return "" })
		}
		if tgt.life == live && tgt.suspended && !m.noGrace {
			w.try(true, "target's grace ends", t, -1, func(s *state) string { m.fail(s, t); return "" })
		}
		if tgt.life == failed && w.from.reap.gen == 0 {
			w.try(false, "decide to reap", t, -1, func(s *state) string {
				s.reap.slot, s.reap.gen = uint8(t), tgt.gen
				return ""
			})
		}
	}
	if w.from.reap.gen != 0 {
		w.try(true, "reap", int(w.from.reap.slot), int(w.from.reap.gen), func(s *state) string {
			r := s.reap
			s.reap.slot, s.reap.gen = 0, 0
			tgt := &s.targets[r.slot]
			if meant := tgt.gen == r.gen && tgt.life == failed; !meant && (tgt.life == free || !m.reapByNumber) {
				m.seen.staleReaps++
				return ""
			}
			was := tgt.gen
			*tgt = target{life: tombstone, gen: was}
			if was != r.gen {
				return fmt.Sprintf("a reap of target %d.%d buries %d.%d", r.slot, r.gen, r.slot, was)
			}
			return ""
		})
	}
	if w.from.dInc < m.incarnations {
		w.try(false, "restart the targets' daemon", -1, -1, func(s *state) string {
			s.dInc++
			s.nextGen = 0
			s.targets = [slots]target{}
			s.sessions = [sessions][slots]hold{} // device-fatal: they open everything anew
			s.reap.slot, s.reap.gen, s.doomed = 0, 0, 0
			m.lose(s)
			return ""
		})
	}
}
