package model

import "fmt"

// lose is the end of the connection: what is on it is gone, and both ends wait.
func (m *model) lose(s *state) {
	s.connected = false
	s.out, s.back = queue{}, queue{}
	for t := range s.targets {
		if s.targets[t].life == live {
			s.targets[t].suspended = true
		}
	}
	for i := range s.inis {
		n := &s.inis[i]
		n.asked = false
		if n.phase == up {
			n.phase = suspended
		}
	}
}

func (n *initiator) end() {
	*n = initiator{phase: broken, gen: n.gen}
}

func (w *walker) initiatorSteps() {
	m := w.m
	for i := range m.initiators {
		n := w.from.inis[i]
		canSend := w.from.connected && w.from.out.room(m.frames)
		send := func(s *state, f frame) {
			f.ini, f.gen, f.slot, f.tgt = uint8(i), n.gen, n.slot, n.tgt
			s.out.put(f)
		}
		switch n.phase {
		case closed:
			if n.gen < m.iniGens {
				w.try(false, "open initiator", i, -1, func(s *state) string {
					s.inis[i] = initiator{phase: connecting, gen: n.gen + 1}
					return ""
				})
			}
			continue
		case connecting:
			if canSend && !n.asked {
				w.try(false, "ask for a target", i, -1, func(s *state) string {
					s.inis[i].asked = true
					send(s, frame{kind: askTarget})
					return ""
				})
			}
		case up:
			if canSend && n.sent < m.messages {
				w.try(false, "send", i, int(n.sent)+1, func(s *state) string {
					s.inis[i].sent++
					send(s, frame{kind: data, arg: n.sent + 1})
					return ""
				})
			}
		case suspended:
			if canSend && !n.asked {
				w.try(false, "ask to resume", i, -1, func(s *state) string {
					s.inis[i].asked = true
					send(s, frame{kind: askResume, arg: n.acked})
					return ""
				})
			}
			w.endings(i, "initiator's grace ends", initiator{phase: broken, gen: n.gen}, m.silentEnd)
		}
		w.endings(i, "close initiator", initiator{gen: n.gen}, n.phase == broken)
	}
	if w.from.iInc < m.incarnations {
		w.try(false, "restart the initiators' daemon", -1, -1, func(s *state) string {
			s.iInc++
			s.inis = [initiators]initiator{}
			m.lose(s)
			return ""
		})
	}
}

// endings are the ways in which an initiator ends by itself. The other daemon is
// told, if there is a connection and silent is false; else its target's grace
// ends some time.
func (w *walker) endings(i int, what string, end initiator, silent bool) {
	m, n := w.m, w.from.inis[i]
	tell := w.from.connected && !silent
	if tell && !w.from.out.room(m.frames) {
		return // later
	}
	w.try(true, what, i, -1, func(s *state) string {
		s.inis[i] = end
		if tell {
			s.out.put(frame{kind: gone, ini: uint8(i), gen: n.gen})
		}
		return ""
	})
}

func (w *walker) connectionSteps() {
	m := w.m
	if !w.from.connected {
		w.try(true, "connect", -1, -1, func(s *state) string {
			s.connected = true
			// Each says which incarnation it is.
			for t := range s.targets {
				if s.targets[t].life == live && s.targets[t].iniInc != s.iInc && !m.deafToDaemons {
					m.fail(s, t)
				}
			}
			for i := range s.inis {
				if n := &s.inis[i]; n.phase == suspended && n.dInc != s.dInc {
					n.end()
				}
			}
			return ""
		})
		return
	}
	w.try(false, "lose the connection", -1, -1, func(s *state) string { m.lose(s); return "" })
	if f := w.from.back[0]; f.kind != none {
		w.try(true, frameNames[f.kind], int(f.ini), -1, func(s *state) string {
			f := s.back.take()
			m.hear(s, f)
			return ""
		})
	}
	f := w.from.out[0]
	if f.kind == none || !w.from.back.room(m.frames) {
		return
	}
	if f.kind != askTarget {
		w.try(true, frameNames[f.kind], int(f.ini), -1, func(s *state) string {
			return m.serve(s, s.out.take())
		})
		return
	}
	// The daemon may put the target at any free number, for any session.
	for t := range m.targets {
		if w.from.targets[t].life == free && w.from.doomed>>t&1 == 0 {
			for i := range m.sessions {
				w.try(true, "make a target", t, i, func(s *state) string {
					return m.connect(s, s.out.take(), t, i)
				})
			}
		}
	}
	w.try(true, "make no target", -1, -1, func(s *state) string {
		return m.connect(s, s.out.take(), -1, -1)
	})
}

// connect answers a request for a target: there is one, or slot t takes one for
// session i, or neither.
func (m *model) connect(s *state, f frame, t, i int) string {
	answer := frame{kind: refused, ini: f.ini, gen: f.gen}
	for o := range s.targets {
		tgt := &s.targets[o]
		if tgt.life != live || tgt.ini != f.ini || tgt.iniInc != s.iInc && !m.deafToDaemons {
			continue
		}
		if tgt.iniGen != f.gen {
			m.fail(s, o) // of an earlier life of the initiator
		} else if !m.forgetsReplies {
			m.seen.repeats++
			tgt.suspended = false
			answer.kind, answer.slot, answer.tgt = hasTarget, uint8(o), tgt.gen
		}
	}
	if answer.kind == refused && t >= 0 && s.nextGen < m.generations {
		s.nextGen++
		s.targets[t] = target{life: live, gen: s.nextGen, ini: f.ini, iniGen: f.gen, iniInc: s.iInc}
		s.sessions[i][t] = registered
		answer.kind, answer.slot, answer.tgt = hasTarget, uint8(t), s.nextGen
	}
	s.back.put(answer)
	return ""
}

// serve is what the targets' daemon does with other frames.
func (m *model) serve(s *state, f frame) string {
	answer := frame{kind: refused, ini: f.ini, gen: f.gen}
	tgt := &s.targets[f.slot]
	owned := tgt.ini == f.ini && tgt.iniGen == f.gen && tgt.iniInc == s.iInc
	switch f.kind {
	case gone:
		for t := range s.targets {
			if o := &s.targets[t]; o.life == live && o.ini == f.ini && o.iniGen == f.gen && o.iniInc == s.iInc {
				m.fail(s, t)
			}
		}
		return ""
	case askResume:
		meant := tgt.gen == f.tgt && owned
		if tgt.life == live && (meant || m.resumeByNumber) {
			tgt.suspended = false
			answer.kind, answer.arg = hasResumed, tgt.executed
			if m.blindReplay {
				answer.arg = f.arg
			}
			if !meant {
				return fmt.Sprintf("initiator %d.%d resumes target %d.%d of initiator %d.%d", f.ini, f.gen, f.slot, tgt.gen, tgt.ini, tgt.iniGen)
			}
		}
	case data:
		if tgt.life == live && (tgt.gen == f.tgt || m.byNumber) {
			if !owned {
				return fmt.Sprintf("message %d of initiator %d.%d comes out of target %d.%d of initiator %d.%d", f.arg, f.ini, f.gen, f.slot, tgt.gen, tgt.ini, tgt.iniGen)
			}
			answer.kind, answer.arg = ack, f.arg
			tgt.executed = f.arg
			// The sender may have closed; what it had sent counts all the same.
			if n := &s.inis[f.ini]; n.gen == f.gen && n.phase >= up && n.phase < broken {
				if f.arg != n.executed+1 {
					return fmt.Sprintf("message %d of initiator %d is executed after %d", f.arg, f.ini, n.executed)
				}
				n.executed = f.arg
			}
		}
	}
	s.back.put(answer)
	return ""
}

// hear is what the initiators' daemon does with an answer.
func (m *model) hear(s *state, f frame) {
	n := &s.inis[f.ini]
	if n.gen != f.gen {
		return // of an earlier life
	}
	switch f.kind {
	case hasTarget:
		if n.phase == connecting {
			*n = initiator{phase: up, gen: n.gen, slot: f.slot, tgt: f.tgt, dInc: s.dInc}
		}
	case hasResumed:
		if n.phase == suspended {
			if n.sent > f.arg {
				m.seen.replays++
			}
			if f.arg > n.acked {
				m.seen.answered++
			}
			n.phase, n.asked = up, false
			n.acked = max(n.acked, f.arg)
			if !m.optimist {
				n.sent = f.arg // the others once more
			}
		}
	case ack:
		if n.phase == up {
			n.acked = max(n.acked, f.arg)
		}
	case refused:
		if n.phase == suspended {
			m.seen.refusals++
		}
		if n.phase != closed {
			n.end()
		}
	}
}
