package choice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/transport"
)

// pair is who a choice is for.
type pair struct{ local, remote netip.Addr }

func pairOf(local, remote netip.Addr) pair { return pair{local.Unmap(), remote.Unmap()} }

// dials tells whether links of the pair are dialed from here: by the smaller address,
// as in net/rds/threads.c, rds_addr_cmp. That side alone decides what serves the pair.
func (k pair) dials() bool { return k.local.Compare(k.remote) < 0 }

// state is what is known of a pair. Its fields are guarded by Transport.mu.
type state struct {
	serves transport.Transport // transport that serves the pair; nil: not known yet
	target transport.Transport // transport that the next dial tries, because the pair is to move to it; nil: no move is under way
	since  time.Time           // since when serves is set
	reason string              // why serves was chosen
	why    string              // why the pair is to move to target
	moved  time.Time           // when the pair last went from one transport to the other; zero: never
	away   time.Time           // since when dials of the preferred transport have failed; zero: they do not fail
	hung   bool                // the last dial of the preferred transport failed as Options.Hung tells

	timer  *time.Timer   // asks the next question; nil: no question is planned
	next   time.Time     // when timer fires
	wait   time.Duration // time between the next question and the one after it
	asking bool          // a question is under way
	asked  time.Time     // when the peer was asked last
}

// settle notes what serves.
func (st *state) settle(which transport.Transport, reason string) {
	if st.serves != which {
		st.serves, st.since, st.reason = which, time.Now(), reason
	}
}

// quiet ends questions.
func (st *state) quiet() {
	if st.timer != nil {
		st.timer.Stop()
	}
	st.timer, st.next, st.wait = nil, time.Time{}, 0
}

// State says what serves a pair of addresses, and why.
type State struct {
	Wire   string    // name of the transport that serves; empty: not known yet
	Since  time.Time // when the transport that serves was found out
	Reason string    // why the preferred transport does not serve, or serves again
	Forced bool      // the configuration has chosen the transport, which never changes
	Moving string    // name of the transport that the pair is moving to
	Next   time.Time // when the peer is asked next whether it speaks the preferred transport; zero: no question is planned
}

// State is a snapshot for reports.
func (t *Transport) State(local, remote netip.Addr) State {
	st, forced := t.look(pairOf(local, remote))
	s := State{Forced: forced != nil, Since: st.since, Reason: st.reason, Next: st.next}
	if forced != nil && st.serves == nil {
		st.serves, s.Reason = forced, "configured"
	}
	if st.serves != nil {
		s.Wire = st.serves.Name()
	}
	if st.target != nil {
		s.Moving = st.target.Name()
	}
	return s
}

// Chosen is the name of the transport that serves a pair, "" while it is not known.
func (t *Transport) Chosen(local, remote netip.Addr) string { return t.State(local, remote).Wire }

// Target is the name of the transport that links of a pair have to be of: the one that
// the pair is moving to, else the one that serves it. "" is any: nothing is known, or
// the peer is the side that dials and decides.
func (t *Transport) Target(local, remote netip.Addr) string {
	if !pairOf(local, remote).dials() {
		return ""
	}
	s := t.State(local, remote)
	return cmp.Or(s.Moving, s.Wire)
}

// Move has a pair go to the transport of this name as soon as its links have been ended
// (Moves), whatever time has passed since the last move. If it cannot be dialed the
// pair stays where it is. EINVAL where the peer decides, or ErrForced.
func (t *Transport) Move(local, remote netip.Addr, name, reason string) error {
	which, err := t.byName(name)
	if err != nil {
		return err
	}
	k := pairOf(local, remote)
	if !k.dials() {
		return fmt.Errorf("choice: %v decides what serves it: %w", remote, syscall.EINVAL)
	}
	t.mu.Lock()
	if t.forced[k.remote] != nil {
		t.mu.Unlock()
		return ErrForced
	}
	st := t.stateLocked(k)
	if st.serves == which || st.serves == nil {
		st.target = nil
		t.mu.Unlock()
		return nil
	}
	st.target, st.why = which, reason
	moves := t.moves
	t.mu.Unlock()
	if moves != nil {
		moves(k.local, k.remote)
	}
	return nil
}

func (t *Transport) stateLocked(k pair) *state {
	st := t.pairs[k]
	if st == nil {
		st = new(state)
		t.pairs[k] = st
	}
	return st
}

// look returns what is known of a pair, and what its peer is forced to be served by.
func (t *Transport) look(k pair) (state, transport.Transport) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if st := t.pairs[k]; st != nil {
		return *st, t.forced[k.remote]
	}
	return state{}, t.forced[k.remote]
}

// choose notes that a pair is served by which, unless its peer was forced to be served
// by the other one. known is what a dial has gone by: if the pair has moved since, its
// link is too late. nil for what the peer has dialed.
func (t *Transport) choose(k pair, which transport.Transport, reason string, known *state) bool {
	t.mu.Lock()
	st, f := t.stateLocked(k), t.forced[k.remote]
	if t.closed || f != nil && f != which || known != nil && st.serves != known.serves && st.serves != which {
		t.mu.Unlock()
		return false
	}
	was, pending := st.serves, st.target
	st.away, st.hung, st.target = time.Time{}, false, nil
	if was == which {
		if pending != nil && pending != which { // the link was dialed before the pair was to move
			st.target = pending
		}
		if which == t.opts.Other && st.timer == nil && !st.asking { // after Rest
			t.askLaterLocked(k, st)
		}
		t.mu.Unlock()
		return true
	}
	st.settle(which, reason)
	if was != nil {
		st.moved = st.since
	}
	st.quiet()
	if which == t.opts.Other {
		t.askLaterLocked(k, st)
	}
	watch, moves := t.watch, t.moves
	t.mu.Unlock()
	log := t.opts.Logger.With(zap.Stringer("local", k.local), zap.Stringer("peer", k.remote), zap.String("transport", which.Name()), zap.String("reason", reason))
	switch {
	case was != nil:
		log.Warn("peer is served by another transport", zap.String("before", was.Name()))
	case which == t.opts.Other && k.dials():
		log.Warn("peer is not served by the preferred transport", zap.String("preferred", t.opts.Preferred.Name()))
	default:
		log.Info("transport chosen")
	}
	if watch != nil {
		watch(k.remote)
	}
	if moves != nil && was != nil && k.dials() {
		moves(k.local, k.remote)
	}
	return true
}

// stays gives up a move: the pair's transport could not be dialed.
func (t *Transport) stays(k pair, target transport.Transport, err error) {
	t.mu.Lock()
	st := t.stateLocked(k)
	if st.target == target {
		st.target = nil
		if st.serves == t.opts.Other {
			t.askLaterLocked(k, st)
		}
	}
	t.mu.Unlock()
	t.opts.Logger.Info("peer does not move", zap.Stringer("local", k.local), zap.Stringer("peer", k.remote), zap.String("to", target.Name()), zap.Error(err))
}

// gone forgets that a pair is served by the other transport: whoever spoke it has
// ended, and what comes instead may speak the preferred one.
func (t *Transport) gone(k pair) {
	t.mu.Lock()
	st, watch := t.stateLocked(k), t.watch
	changed := t.forced[k.remote] == nil && st.serves == t.opts.Other
	if changed {
		st.serves, st.target, st.since, st.reason = nil, nil, time.Time{}, ""
		st.quiet()
	}
	t.mu.Unlock()
	if changed && watch != nil {
		watch(k.remote)
	}
}

// failing notes that the preferred transport is not in use, and returns since when its
// dials have failed.
func (t *Transport) failing(k pair) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	st := t.stateLocked(k)
	if st.away.IsZero() {
		st.away = time.Now()
	}
	return st.away
}

// hangs notes whether the last dial of the preferred transport has met a program that
// does not answer, and returns it.
func (t *Transport) hangs(k pair, err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	st := t.stateLocked(k)
	st.hung = t.opts.Hung(err)
	return st.hung
}

// mayMove tells whether the pair's last move is long enough ago.
func (t *Transport) mayMove(st *state) bool {
	return st.moved.IsZero() || time.Since(st.moved) >= t.opts.Gap
}

// absent tells whether an error of a dial means that nobody there speaks its
// transport.
func (t *Transport) absent(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || t.opts.Absent(err)
}

// why is the reason that err is for not using the preferred transport, in one line.
func (t *Transport) why(err error, since time.Time) string {
	name := t.opts.Preferred.Name()
	switch {
	case err == nil:
		return name + " is not in use"
	case t.opts.Absent(err): // before refusal: a rejection may wrap ECONNREFUSED, too
		return name + " is rejected"
	case errors.Is(err, syscall.ECONNREFUSED):
		return name + " is refused"
	case silentFor(err):
		return fmt.Sprintf("%s does not answer for %v", name, time.Since(since).Round(100*time.Millisecond))
	}
	return name + ": " + strings.ReplaceAll(err.Error(), "\n", "; ")
}

// silentFor tells whether a dial has ended without an answer.
func silentFor(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, syscall.ETIMEDOUT)
}
