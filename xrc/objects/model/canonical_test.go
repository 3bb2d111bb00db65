package model

import "slices"

// canonical is the same state with targets, initiators and sessions in an order.
// Which is which does not matter, so states that differ in nothing else are one.
// In the story of a violation they may change places from line to line.
func (m *model) canonical(s state) state {
	if m.targets == 2 && s.targets[0].key() > s.targets[1].key() {
		s.swapTargets()
	}
	if m.initiators == 2 && s.inis[0].key() > s.inis[1].key() {
		s.swapInitiators()
	}
	slices.SortFunc(s.sessions[:m.sessions], func(a, b [slots]hold) int {
		return int(b[0])<<4 + int(b[1]) - int(a[0])<<4 - int(a[1])
	})
	return s
}

func pack(v ...uint8) (key uint64) {
	for _, b := range v {
		key = key<<4 | uint64(b)
	}
	return key
}

func (t *target) key() uint64 {
	waits := uint8(0)
	if t.suspended {
		waits = 1
	}
	// Whose it is stays out: initiators are put in order after targets.
	return pack(uint8(t.life), t.gen, t.iniGen, t.iniInc, t.executed, waits)
}

func (n *initiator) key() uint64 {
	asked := uint8(0)
	if n.asked {
		asked = 1
	}
	return pack(uint8(n.phase), n.gen, asked, n.slot, n.tgt, n.dInc, n.sent, n.acked, n.executed)
}

func (s *state) frames(do func(f *frame)) {
	for i := range s.out {
		if s.out[i].kind != none {
			do(&s.out[i])
		}
		if s.back[i].kind != none {
			do(&s.back[i])
		}
	}
}

func (s *state) swapTargets() {
	s.targets[0], s.targets[1] = s.targets[1], s.targets[0]
	for i := range s.sessions {
		h := &s.sessions[i]
		h[0], h[1] = h[1], h[0]
	}
	for i := range s.inis {
		if n := &s.inis[i]; n.tgt != 0 {
			n.slot ^= 1
		}
	}
	s.frames(func(f *frame) {
		if f.tgt != 0 {
			f.slot ^= 1
		}
	})
	if s.reap.gen != 0 {
		s.reap.slot ^= 1
	}
	s.doomed = s.doomed>>1 | s.doomed<<1&2
}

func (s *state) swapInitiators() {
	s.inis[0], s.inis[1] = s.inis[1], s.inis[0]
	for t := range s.targets {
		if tgt := &s.targets[t]; tgt.iniGen != 0 {
			tgt.ini ^= 1
		}
	}
	s.frames(func(f *frame) { f.ini ^= 1 })
}
