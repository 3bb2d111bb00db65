//go:build !live

package choice

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
)

// long is more than any dial of a test takes.
const long = 30 * time.Second

// The first dial finds out, and the next ones ask nobody else.
func TestUnknownPeer(t *testing.T) {
	for _, c := range []struct {
		name             string
		preferred, other answer
		want             string
		dials            [2]int // dials of each transport, to find out
		next             [2]int // dials of each transport, afterwards
	}{
		{"preferred answers", answers, answers, "new", [2]int{1, 0}, [2]int{1, 0}},
		{"preferred is refused", refuses, answers, "old", [2]int{2, 1}, [2]int{0, 1}},
		{"preferred is rejected", rejects, answers, "old", [2]int{1, 1}, [2]int{0, 1}},
		{"preferred fails", fails, answers, "old", [2]int{2, 1}, [2]int{0, 1}},
		{"preferred is silent", silent, answers, "old", [2]int{3, 1}, [2]int{0, 1}},
		{"both are refused", refuses, refuses, "", [2]int{1, 1}, [2]int{1, 1}},
		{"both are silent", silent, silent, "", [2]int{2, 1}, [2]int{1, 1}},
		{"other is silent", refuses, silent, "", [2]int{1, 1}, [2]int{1, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, time.Second, func(t *testing.T, r *rig) {
				r.preferred.set(c.preferred)
				r.other.set(c.other)
				r.wantChosen("before", "")
				start := time.Now()
				_ = r.wantDial("first", long, c.want)
				r.wantDials("first", c.dials[0], c.dials[1])
				if took := time.Since(start); c.preferred == silent && c.other == answers && took != 2*time.Second+headStart {
					t.Errorf("waited %v", took)
				}
				r.wantChosen("after", c.want)
				_ = r.wantDial("second", long, c.want)
				r.wantDials("second", c.next[0], c.next[1])
			})
		})
	}
}

// Who is refused by both hears both reasons.
func TestBothErrors(t *testing.T) {
	bubble(t, time.Second, func(t *testing.T, r *rig) {
		r.preferred.set(rejects)
		err := r.wantDial("dial", long, "")
		if !errors.Is(err, errRejected) || !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%v", err)
		}
	})
}

// The caller's time is over first: the other transport is not asked.
func TestCallerGivesUp(t *testing.T) {
	bubble(t, time.Second, func(t *testing.T, r *rig) {
		r.preferred.set(silent)
		r.other.set(answers)
		if err := r.wantDial("dial", time.Second/2, ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		r.wantDials("dial", 1, 0)
		r.wantChosen("dial", "")
	})
}

// What happens to a choice that was made.
func TestKnownPeer(t *testing.T) {
	for _, c := range []struct {
		name             string
		by               answer // answer of the preferred transport when it is chosen: answers or refuses
		preferred, other answer // then
		want             string
		chosen           string
		dials            [2]int
	}{
		{"preferred goes on", answers, answers, answers, "new", "new", [2]int{1, 0}},
		{"preferred silent", answers, silent, answers, "old", "old", [2]int{3, 1}},
		{"both silent", answers, silent, silent, "", "new", [2]int{2, 1}},
		{"preferred fails", answers, fails, answers, "", "new", [2]int{1, 0}},
		{"preferred refused, other answers", answers, refuses, answers, "old", "old", [2]int{2, 1}},
		{"preferred rejected, other answers", answers, rejects, answers, "old", "old", [2]int{1, 1}},
		{"preferred refused, other silent", answers, refuses, silent, "", "new", [2]int{1, 1}},
		{"preferred and other refused", answers, refuses, refuses, "", "new", [2]int{1, 1}},
		{"other goes on", refuses, answers, answers, "old", "old", [2]int{0, 1}},
		{"other silent", refuses, answers, silent, "", "old", [2]int{0, 1}},
		{"other fails", refuses, answers, fails, "", "old", [2]int{0, 1}},
		{"other refused, preferred answers", refuses, answers, refuses, "new", "new", [2]int{1, 1}},
		{"other refused, preferred silent", refuses, silent, refuses, "", "old", [2]int{1, 1}},
		{"other and preferred refused", refuses, refuses, refuses, "", "", [2]int{1, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, time.Second, func(t *testing.T, r *rig) {
				first := map[answer]string{answers: "new", refuses: "old"}[c.by]
				r.preferred.set(c.by)
				r.other.set(answers)
				_ = r.wantDial("first", long, first)
				r.preferred.dialed()
				r.other.dialed()
				r.preferred.set(c.preferred)
				r.other.set(c.other)
				if c.by == answers && c.preferred == refuses { // it may be just starting again
					_ = r.wantDial("at once", long, "")
					r.wantDials("at once", 1, 0)
					r.wantChosen("at once", "new")
					<-time.After(time.Second)
				}
				_ = r.wantDial("then", long, c.want)
				r.wantDials("then", c.dials[0], c.dials[1])
				r.wantChosen("then", c.chosen)
			})
		})
	}
}

// A peer that went away and comes back speaking the preferred transport, too, is
// served by that.
func TestPeerIsUpgraded(t *testing.T) {
	bubble(t, time.Second, func(t *testing.T, r *rig) {
		r.other.set(answers)
		_ = r.wantDial("old", long, "old")
		r.other.set(refuses)
		_ = r.wantDial("gone", long, "")
		r.preferred.set(answers)
		r.other.set(answers)
		_ = r.wantDial("back", long, "new")
	})
}

// A peer that was about to listen when it was asked is not taken for one that lacks the
// preferred transport because it listens now, to both.
func TestPeerComesUpWhileAsked(t *testing.T) {
	for _, before := range []bool{false, true} {
		bubble(t, 50*time.Millisecond, func(t *testing.T, r *rig) { // where nobody is silent because it has to wait its turn
			if before { // and is known, and has been away for long
				r.preferred.set(answers)
				_ = r.wantDial("before", long, "new")
				r.preferred.set(refuses)
				_ = r.wantDial("away", long, "")
				<-time.After(50 * time.Millisecond)
			}
			r.preferred.dialed()
			var late *fakeLink
			r.other.set(answers)
			r.other.answered = func(l *fakeLink) { // it has answered: so it listens to the preferred one, too
				late = l
				r.preferred.set(answers)
			}
			_ = r.wantDial("back", long, "new")
			r.wantDials("back", 2, 1)
			r.wantChosen("back", "new")
			if late == nil || !late.wasAborted() {
				t.Error("the link of the other one is left open")
			}
		})
	}
}

// A peer that is the side that dials has chosen when it connects, and may choose anew.
func TestInboundDecides(t *testing.T) {
	bubble(t, time.Second, func(t *testing.T, r *rig) {
		r.preferred.set(answers)
		r.other.set(answers)
		chosen := func(what, want string) {
			t.Helper()
			if by := r.Chosen(us, below); by != want {
				t.Errorf("%s: %q is chosen, want %q", what, by, want)
			}
		}
		l, ok := r.connect(r.other, below)
		chosen("inbound, not in use", "")
		r.Taken(l)
		chosen("inbound", "old")
		if _, err := r.Dial(t.Context(), us, below, 0); err != nil {
			t.Error(err)
		}
		r.wantDials("a knock", 0, 1)
		m, again := r.connect(r.preferred, below)
		chosen("another, not in use", "old")
		r.Taken(m)
		chosen("inbound again", "new")
		r.Ended(us, below, true)
		chosen("a peer without links", "new")
		if !ok || !again || l.wasAborted() || m.wasAborted() {
			t.Errorf("accepted %v and %v", ok, again)
		}
		if w := r.log.FilterLevelExact(zap.WarnLevel).Len(); w != 1 {
			t.Errorf("%d warnings of one change", w)
		}
		defer func() {
			r.Ended(us, below, false)
			chosen("a peer that is forgotten", "")
		}()
		if to := r.Target(us, below); to != "" {
			t.Errorf("its links have to be of %q", to)
		}
		if err := r.Move(us, below, "old", "a test"); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("moved: %v", err)
		}
	})
}

// Knocks, of the side that does not dial, settle nothing: neither ours nor the peer's.
func TestKnocksDecideNothing(t *testing.T) {
	bubble(t, time.Second, func(t *testing.T, r *rig) {
		r.other.set(answers)
		l, ok := r.connect(r.other, them)
		r.Taken(l)
		if !ok || l.wasAborted() {
			t.Error("a knock is not accepted")
		}
		r.wantChosen("knocked", "")
		if _, err := r.Dial(t.Context(), us, below, 0); err != nil {
			t.Error(err)
		}
		r.wantDials("a knock", 1, 1)
		if by := r.Chosen(us, below); by != "" {
			t.Errorf("%q is chosen", by)
		}
	})
}

func TestForce(t *testing.T) {
	bubble(t, time.Second, func(t *testing.T, r *rig) {
		r.preferred.set(answers)
		r.other.set(refuses)
		if err := r.Force(them, "newer"); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("no such transport: %v", err)
		}
		r.wantChosen("no such transport", "")
		if err := r.Force(them, "old"); err != nil {
			t.Fatal(err)
		}
		r.wantChosen("forced", "old")
		_ = r.wantDial("not what it speaks", long, "")
		r.wantDials("not what it speaks", 0, 1)
		r.wantChosen("refused", "old")
		if _, ok := r.connect(r.preferred, them); ok || r.Admits(them, "new") {
			t.Error("an inbound link of the other transport was accepted")
		}
		if l, ok := r.connect(r.other, them); l.wasAborted() || !ok || !r.Admits(them, "old") {
			t.Error("an inbound link of the right transport was not accepted")
		}
		if err := r.Force(them, "old"); err != nil {
			t.Errorf("again: %v", err)
		}
		if err := r.Force(them, "new"); !errors.Is(err, errForced) {
			t.Errorf("and the opposite: %v", err)
		}
		r.wantChosen("in the end", "old")
	})
}

// A dial that is under way when its peer is forced ends as it must.
func TestForcedWhileDialing(t *testing.T) {
	bubble(t, long, func(t *testing.T, r *rig) {
		r.preferred.hold = make(chan struct{})
		r.preferred.set(answers)
		r.other.set(answers)
		done := make(chan string, 1)
		go func() {
			name, _ := r.dial(context.Background())
			done <- name
		}()
		<-r.preferred.dialing
		if err := r.Force(them, "old"); err != nil {
			t.Fatal(err)
		}
		close(r.preferred.hold)
		if got := <-done; got != "old" {
			t.Errorf("%q answered", got)
		}
		r.wantChosen("forced", "old")
	})
}

// Dials at the same time, of which one hears nothing, end with one choice.
func TestConcurrentDials(t *testing.T) {
	bubble(t, time.Second, func(t *testing.T, r *rig) {
		r.preferred.set(silent)
		r.other.set(answers)
		done := make(chan string, 1)
		go func() {
			name, err := r.dial(t.Context())
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v", err)
			}
			done <- name
		}()
		<-r.preferred.dialing
		r.preferred.set(answers)
		_ = r.wantDial("the second", long, "new")
		if got := <-done; got != "" {
			t.Errorf("%q answered", got)
		}
		r.wantDials("both", 2, 0)
		r.wantChosen("both", "new")
	})
}

// Many dials and inbound links at once; the race detector looks on.
func TestMany(t *testing.T) {
	bubble(t, long, func(t *testing.T, r *rig) {
		r.preferred.set(answers)
		r.other.set(answers)
		const n = 20
		done := make(chan string, n)
		for range n {
			go func() {
				name, err := r.dial(context.Background())
				if err != nil {
					t.Error(err)
				}
				done <- name
			}()
			go r.connect(r.preferred, them)
		}
		for range n {
			if got := <-done; got != "new" {
				t.Errorf("%q answered", got)
			}
		}
		r.wantChosen("all", "new")
	})
}

// A policy that is closed asks nothing more, and gives no links.
func TestClosed(t *testing.T) {
	bubble(t, 0, func(t *testing.T, r *rig) {
		fallen(r)
		pass(29 * time.Second)
		r.Close()
		pass(time.Hour)
		if n := r.preferred.asked(); n != 0 {
			t.Errorf("asked %d times", n)
		}
		var late *fakeLink
		r.other.answered = func(l *fakeLink) { late = l }
		_ = r.wantDial("closed", long, "")
		if late == nil || !late.wasAborted() {
			t.Error("the link of a late dial is left open")
		}
	})
}
