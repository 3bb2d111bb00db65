package model

import "testing"

// small is one target and one initiator through everything that may happen to
// them, with messages.
func small() model {
	return model{sessions: 2, targets: 1, initiators: 1, frames: 2, incarnations: 2, generations: 2, iniGens: 2, messages: 2}
}

// wide is two of each, which can be mixed up.
func wide() model {
	return model{sessions: 2, targets: 2, initiators: 2, frames: 1, incarnations: 1, generations: 2, iniGens: 1, messages: 1}
}

// TestTargetsLiveAndDieInOrder walks through several worlds. The large ones take
// long under the race detector, which has nothing to find here.
func TestTargetsLiveAndDieInOrder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		model model
		least int // states
		large bool
	}{
		{"one target, two frames", small(), 50_000, false},
		{"one target, three sessions", model{sessions: 3, targets: 1, initiators: 1, frames: 1, incarnations: 2, generations: 2, iniGens: 2, messages: 2}, 50_000, false},
		{"two targets, two initiators", model{sessions: 1, targets: 2, initiators: 2, frames: 1, incarnations: 1, generations: 2, iniGens: 1, messages: 1}, 50_000, false},
		{"two targets, three sessions", model{sessions: 3, targets: 2, initiators: 1, frames: 1, incarnations: 1, generations: 2, iniGens: 2, messages: 1}, 100_000, true},
		{"two targets, restarts", model{sessions: 2, targets: 2, initiators: 1, frames: 1, incarnations: 2, generations: 2, iniGens: 2, messages: 1}, 100_000, true},
		{"two of each", wide(), 300_000, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.large && raced {
				t.Skip("takes minutes under the race detector: run without -race")
			}
			m := c.model
			r := m.walk()
			if r.wrong != "" {
				t.Fatal(r)
			}
			t.Logf("%v; %+v", r, m.seen)
			s := m.seen
			if r.states < c.least || s.refusals == 0 || s.repeats == 0 || s.staleReaps == 0 ||
				s.replays == 0 || s.answered == 0 || s.lateJoins == 0 && m.sessions > 1 {
				t.Errorf("it has not come across much")
			}
		})
	}
}

// TestTheWalkFindsBrokenRules breaks one rule at a time, to show that the test
// above could fail.
func TestTheWalkFindsBrokenRules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		model model
		rules rules
	}{
		{"an error is told to one session", small(), rules{oneListener: true}},
		{"registering with a target in error is silent", small(), rules{silentRegister: true}},
		{"registering with a target in error tells twice", small(), rules{eventOnRegister: true}},
		{"the last to unregister destroys later", small(), rules{lateDestroy: true}},
		{"targets wait for ever", small(), rules{noGrace: true}},
		{"initiators end in silence", small(), rules{silentEnd: true}},
		{"everything not acknowledged is sent again", small(), rules{blindReplay: true}},
		{"nothing is sent again", small(), rules{optimist: true}},
		{"a restarted daemon is taken for the old one", small(), rules{deafToDaemons: true}},
		{"messages go by number", wide(), rules{byNumber: true}},
		{"a resume goes by number", wide(), rules{resumeByNumber: true}},
		{"a request that is repeated gets a new target", wide(), rules{forgetsReplies: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := c.model
			m.rules = c.rules
			r := m.walk()
			if r.wrong == "" {
				t.Fatalf("not noticed: %v", r)
			}
			r.story = r.story[max(0, len(r.story)-3):]
			t.Log(r)
		})
	}
}

// XRC-REQ-39: a reaper that has decided meets a target that was left and made
// anew in the meantime, in every interleaving. It goes by the generation.
func TestXRCREQ39ReapMeetsTheNextGeneration(t *testing.T) {
	t.Parallel()
	m := small()
	m.messages, m.incarnations, m.frames = 0, 1, 1
	if r := m.walk(); r.wrong != "" || m.seen.staleReaps < 100 {
		t.Errorf("%v; %+v", r, m.seen)
	}
	m.reapByNumber = true
	if r := m.walk(); r.wrong == "" {
		t.Errorf("a reap by number is not noticed: %v", r)
	}
}
