//go:build !live

package choice

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
)

// pass lets time pass, and everything happen that is due.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// served has the peer answer by both transports: the preferred one serves it.
func served(r *rig) {
	r.Helper()
	r.preferred.set(answers)
	r.other.set(answers)
	_ = r.wantDial("first", long, "new")
}

// fallen has the peer fall back to the other transport.
func fallen(r *rig) {
	r.Helper()
	served(r)
	r.preferred.set(silent)
	_ = r.wantDial("fallen", long, "old")
	r.wantChosen("fallen", "old")
	r.wantDials("fallen", 4, 1)
}

func (r *rig) warnings() []string {
	var all []string
	for _, e := range r.log.TakeAll() {
		if e.Level == zap.WarnLevel {
			all = append(all, e.ContextMap()["transport"].(string)+": "+e.ContextMap()["reason"].(string))
		}
	}
	return all
}

// Two lost SYNs, whose third is sent after 3 s, do not turn a pair to the other one.
func TestLostSYN(t *testing.T) {
	for _, known := range []bool{false, true} {
		bubble(t, 0, func(t *testing.T, r *rig) {
			r.other.set(answers)
			r.preferred.set(answers)
			if known {
				_ = r.wantDial("before", long, "new")
			}
			r.preferred.delay = 3200 * time.Millisecond
			r.preferred.set(late)
			_ = r.wantDial("late", long, "new")
			r.wantChosen("late", "new")
			if w := r.warnings(); len(w) != 0 {
				t.Errorf("%q", w)
			}
		})
	}
}

// Dials that are cut short by their callers are silence, too, taken together.
func TestShortDials(t *testing.T) {
	bubble(t, 0, func(t *testing.T, r *rig) {
		served(r)
		r.preferred.set(silent)
		for range 2 {
			_ = r.wantDial("short", 1500*time.Millisecond, "")
		}
		_ = r.wantDial("short", 1900*time.Millisecond, "old")
	})
}

// When the network is back after a while, and both answer, the preferred one serves and
// the other one is not connected to at all.
func TestNetworkComesBack(t *testing.T) {
	bubble(t, 0, func(t *testing.T, r *rig) {
		r.preferred.set(answers)
		_ = r.wantDial("first", long, "new")
		r.preferred.set(silent)
		r.other.set(silent)
		_ = r.wantDial("down", long, "")
		r.preferred.delay = headStart / 2
		r.preferred.set(late)
		r.other.set(answers)
		r.other.dialed()
		_ = r.wantDial("back", long, "new")
		if n := r.other.dialed(); n != 0 {
			t.Errorf("%d dials of the other one", n)
		}
	})
}

// A pair that has fallen back is told so, asks, and goes back when the peer answers.
func TestQuestionBringsBack(t *testing.T) {
	bubble(t, 0, func(t *testing.T, r *rig) {
		fallen(r)
		if w := r.warnings(); len(w) != 1 || w[0] != "old: new does not answer for 5.1s" {
			t.Errorf("%q", w)
		}
		before := r.State(us, them)
		if before.Wire != "old" || before.Moving != "" || before.Next.IsZero() || !before.Next.After(time.Now()) || before.Reason == "" {
			t.Errorf("%+v", before)
		}
		moves := r.moves.Load()
		r.preferred.set(answers)
		pass(29 * time.Second)
		if r.preferred.asked() != 0 || r.Target(us, them) != "old" {
			t.Error("asked or moved in less than 30 s")
		}
		pass(2 * time.Second)
		if n := r.preferred.asked(); n != 1 {
			t.Errorf("asked %d times", n)
		}
		if r.moves.Load() != moves+1 || r.Target(us, them) != "new" || r.Chosen(us, them) != "old" {
			t.Errorf("links are to be of %q, and ended %d times", r.Target(us, them), r.moves.Load()-moves)
		}
		r.wantDials("a question", 0, 0)
		_ = r.wantDial("moving", long, "new")
		r.wantDials("moving", 1, 0)
		r.wantChosen("moved", "new")
		if w := r.warnings(); len(w) != 1 || w[0] != "new: new answers again" {
			t.Errorf("%q", w)
		}
		if s := r.State(us, them); s.Wire != "new" || s.Moving != "" || !s.Next.IsZero() || s.Reason != "new answers again" {
			t.Errorf("%+v", s)
		}
		pass(time.Hour)
		if n := r.preferred.asked(); n != 0 {
			t.Errorf("asked %d times when there was nothing to ask", n)
		}
	})
}

// At least 30 s are between two moves, whatever happens.
func TestGap(t *testing.T) {
	bubble(t, 0, func(t *testing.T, r *rig) {
		fallen(r)
		r.preferred.set(answers)
		pass(31 * time.Second)
		_ = r.wantDial("back", long, "new")
		back := time.Now()
		for _, a := range []answer{silent, refuses, rejects} {
			r.preferred.set(a)
			_ = r.wantDial("at once", 9*time.Second, "")
		}
		for r.Chosen(us, them) == "new" {
			_, _ = r.dial(t.Context())
			pass(time.Second)
		}
		if d := time.Since(back); d < 30*time.Second || d > 40*time.Second {
			t.Errorf("moved after %v", d)
		}
	})
}

// A move that comes to nothing leaves the pair where it is, and it is asked again.
func TestMoveFails(t *testing.T) {
	bubble(t, 0, func(t *testing.T, r *rig) {
		fallen(r)
		r.preferred.set(answers)
		pass(31 * time.Second)
		for _, a := range []answer{refuses, silent} {
			r.preferred.asked()
			r.preferred.set(a)
			_ = r.wantDial("moving", long, "old")
			r.wantChosen("not moved", "old")
			if to := r.Target(us, them); to != "old" {
				t.Errorf("target %q", to)
			}
			r.preferred.set(answers)
			pass(5 * time.Minute)
			if r.preferred.asked() == 0 || r.Target(us, them) != "new" {
				t.Error("not asked again")
			}
		}
	})
}

// A peer without the preferred transport is asked at intervals that grow to minutes,
// and not more often because links are lost and dialed again all the time.
func TestQuestionsAreRare(t *testing.T) {
	for _, dials := range []bool{false, true} {
		bubble(t, 0, func(t *testing.T, r *rig) {
			r.preferred.set(refuses)
			r.other.set(answers)
			_ = r.wantDial("first", long, "old")
			if w := r.warnings(); len(w) != 1 || w[0] != "old: new is refused" {
				t.Errorf("%q", w)
			}
			r.preferred.dialed()
			start := time.Now()
			for time.Since(start) < 10*time.Minute {
				if dials {
					_ = r.wantDial("again", long, "old")
				}
				pass(time.Second)
			}
			n := r.preferred.asked()
			if dials && (n < 15 || n > 10*60/30) || !dials && (n < 4 || n > 6) {
				t.Errorf("asked %d times in 10 minutes, dials %v", n, dials)
			}
			pass(time.Hour)
			if n := r.preferred.asked(); n < 12 || n > 14 {
				t.Errorf("asked %d times in an hour later", n)
			}
			if n := r.preferred.dialed(); n != 0 {
				t.Errorf("%d dials of a transport that is refused", n)
			}
		})
	}
}

// A peer without links is asked nothing. One that rests keeps its choice, and is asked again
// after the next link; one that is forgotten is unknown.
func TestPeersWithoutLinksAreNotAsked(t *testing.T) {
	bubble(t, 0, func(t *testing.T, r *rig) {
		r.preferred.set(refuses)
		r.other.set(answers)
		_ = r.wantDial("first", long, "old")
		r.Ended(us, them, true)
		pass(time.Hour)
		r.wantChosen("at rest", "old")
		if n := r.preferred.asked(); n != 0 {
			t.Errorf("asked %d times at rest", n)
		}
		_ = r.wantDial("again", long, "old")
		pass(time.Hour)
		if n := r.preferred.asked(); n == 0 {
			t.Error("not asked any more after the rest")
		}
		r.Ended(us, them, false)
		pass(time.Hour)
		if by := r.Chosen(us, them); by != "" {
			t.Errorf("forgotten: %q is chosen", by)
		}
		if n := r.preferred.asked(); n != 0 {
			t.Errorf("asked %d times when forgotten", n)
		}
	})
}

// A peer that is served by configuration is not asked and does not move.
func TestForcedNeverAsks(t *testing.T) {
	bubble(t, 0, func(t *testing.T, r *rig) {
		fallen(r)
		if err := r.Force(them, "old"); err != nil {
			t.Fatal(err)
		}
		r.preferred.set(answers)
		for range 100 {
			_ = r.wantDial("forced", long, "old")
			pass(time.Minute)
		}
		if n := r.preferred.asked(); n != 0 {
			t.Errorf("asked %d times", n)
		}
		r.wantDials("forced", 0, 100)
		if err := r.Move(us, them, "new", "a test"); !errors.Is(err, errForced) {
			t.Errorf("moved: %v", err)
		}
		if s := r.State(us, them); !s.Forced || s.Wire != "old" {
			t.Errorf("%+v", s)
		}
	})
}

// A dial that was begun before the pair has moved is too late with its link.
func TestLateDial(t *testing.T) {
	bubble(t, 0, func(t *testing.T, r *rig) {
		fallen(r)
		r.other.delay = time.Minute
		r.other.set(late)
		type result struct {
			name string
			err  error
		}
		done := make(chan result, 1)
		go func() {
			name, err := r.dial(context.Background())
			done <- result{name, err}
		}()
		synctest.Wait()
		r.preferred.set(answers)
		if err := r.Move(us, them, "new", "a test"); err != nil {
			t.Fatal(err)
		}
		_ = r.wantDial("moving", long, "new")
		if got := <-done; got.err == nil {
			t.Errorf("a link of %q", got.name)
		}
		r.wantChosen("moved", "new")
	})
}

// The knock of a peer, by the preferred transport, has it asked at once.
func TestKnockAsks(t *testing.T) {
	bubble(t, 0, func(t *testing.T, r *rig) {
		r.preferred.set(refuses)
		r.other.set(answers)
		_ = r.wantDial("first", long, "old")
		pass(10 * time.Second)
		r.preferred.set(answers)
		r.connect(r.preferred, them)
		synctest.Wait()
		if r.preferred.asked() != 1 || r.Target(us, them) != "new" {
			t.Errorf("target %q", r.Target(us, them))
		}
	})
}

// A refusal of the transport that serves, of a peer that answers by the other one, has
// it fall back when it has lasted, with one warning.
func TestRefusalLasts(t *testing.T) {
	bubble(t, 0, func(t *testing.T, r *rig) {
		served(r)
		r.preferred.set(refuses)
		for range 3 {
			err := r.wantDial("for a moment", long, "")
			if !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("%v", err)
			}
			pass(time.Second)
		}
		pass(time.Second)
		_ = r.wantDial("for long", long, "old")
		if w := r.warnings(); len(w) != 1 || w[0] != "old: new is refused" {
			t.Errorf("%q", w)
		}
	})
}

// A peer whose program is stopped does not fall back: its kernel takes connections by
// the other transport, too. One of which nothing is known does, since whoever it is that
// listens there may not speak the preferred transport.
func TestHungPeer(t *testing.T) {
	bubble(t, 0, func(t *testing.T, r *rig) {
		served(r)
		for range 20 {
			r.preferred.set(hangs)
			_ = r.wantDial("stopped", 5*time.Second, "")
		}
		r.wantChosen("stopped", "new")
		r.wantDials("stopped", 21, 0)
		r.preferred.set(silent) // and then its host is down, and comes back half
		_ = r.wantDial("down", long, "old")
	})
	bubble(t, 0, func(t *testing.T, r *rig) {
		r.preferred.set(hangs)
		r.other.set(answers)
		_ = r.wantDial("unknown", long, "old")
	})
	bubble(t, 0, func(t *testing.T, r *rig) { // silent first, then stopped
		r.preferred.set(answers)
		r.other.set(silent)
		_ = r.wantDial("first", long, "new")
		r.preferred.set(silent)
		_ = r.wantDial("down", long, "")
		r.preferred.set(hangs)
		r.other.set(answers)
		_ = r.wantDial("stopped", long, "")
		r.wantChosen("stopped", "new")
	})
}
