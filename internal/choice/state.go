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
)

// pair is who a choice is for.
type pair struct{ local, remote netip.Addr }

func pairOf(local, remote netip.Addr) pair { return pair{local.Unmap(), remote.Unmap()} }

// dials tells whether links of the pair are dialed from here: by the smaller address,
// as in net/rds/threads.c, rds_addr_cmp. That side alone decides what serves the pair.
func (k pair) dials() bool { return k.local.Compare(k.remote) < 0 }

// state is what is known of a pair. Its fields are guarded by Policy.mu.
type state struct {
	serves *Wire     // transport that serves the pair; nil: not known yet
	target *Wire     // transport that the next dial tries, because the pair is to move to it; nil: no move is under way
	since  time.Time // since when serves is set
	reason string    // why serves was chosen
	why    string    // why the pair is to move to target
	moved  time.Time // when the pair last went from one transport to the other; zero: never
	away   time.Time // since when dials of the preferred transport have failed; zero: they do not fail
	forced bool      // Force has chosen serves
	hung   bool      // the last dial of the preferred transport failed as Options.Hung tells

	timer  *time.Timer   // asks the next question; nil: no question is planned
	next   time.Time     // when timer fires
	wait   time.Duration // time between the next question and the one after it
	asking bool          // a question is under way
	asked  time.Time     // when the peer was asked last
}

// settle notes what serves.
func (st *state) settle(which *Wire, reason string) {
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
func (p *Policy) State(local, remote netip.Addr) State {
	st := p.look(pairOf(local, remote))
	s := State{Forced: st.forced, Since: st.since, Reason: st.reason, Next: st.next}
	if st.serves != nil {
		s.Wire = st.serves.Name
	}
	if st.target != nil {
		s.Moving = st.target.Name
	}
	return s
}

// Chosen is the name of the transport that serves a pair, "" while it is not known.
func (p *Policy) Chosen(local, remote netip.Addr) string { return p.State(local, remote).Wire }

// Target is the name of the transport that links of a pair have to be of: the one that
// the pair is moving to, else the one that serves it. "" is any: nothing is known, or
// the peer is the side that dials and decides.
func (p *Policy) Target(local, remote netip.Addr) string {
	if !pairOf(local, remote).dials() {
		return ""
	}
	s := p.State(local, remote)
	return cmp.Or(s.Moving, s.Wire)
}

// Move has a pair go to the transport of this name as soon as its links have been ended
// (Options.Leave), whatever time has passed since the last move. If it cannot be dialed the
// pair stays where it is. EINVAL where the peer decides, or errForced.
func (p *Policy) Move(local, remote netip.Addr, name, reason string) error {
	which, err := p.byName(name)
	if err != nil {
		return err
	}
	k := pairOf(local, remote)
	if !k.dials() {
		return fmt.Errorf("choice: %v decides what serves it: %w", remote, syscall.EINVAL)
	}
	p.mu.Lock()
	st := p.stateLocked(k)
	if st.forced || st.serves == which || st.serves == nil {
		defer p.mu.Unlock()
		st.target = nil
		if st.forced {
			return errForced
		}
		return nil
	}
	st.target, st.why = which, reason
	p.mu.Unlock()
	p.opts.Leave(k.local, k.remote)
	return nil
}

// lookLocked is what is known of a pair, which is not noted if it is new.
func (p *Policy) lookLocked(k pair) *state {
	if st := p.pairs[k]; st != nil {
		return st
	}
	if f := p.forced[k.remote]; f != nil {
		return &state{serves: f, reason: "configured", forced: true}
	}
	return new(state)
}

// stateLocked is what is known of a pair.
func (p *Policy) stateLocked(k pair) *state {
	st := p.lookLocked(k)
	p.pairs[k] = st
	return st
}

// look is a copy of what is known of a pair.
func (p *Policy) look(k pair) state {
	p.mu.Lock()
	defer p.mu.Unlock()
	return *p.lookLocked(k)
}

// choose notes that a pair is served by which, unless its peer was forced to be served
// by the other one. known is what a dial has gone by: if the pair has moved since, its
// link is too late. nil for what the peer has dialed.
func (p *Policy) choose(k pair, which *Wire, reason string, known *state) bool {
	p.mu.Lock()
	st := p.stateLocked(k)
	if p.ctx.Err() != nil || (st.forced || known != nil && st.serves != known.serves) && st.serves != which {
		p.mu.Unlock()
		return false
	}
	was := st.serves
	st.away, st.hung = time.Time{}, false
	if was != which || st.target == which { // a link that was dialed before the pair was to move ends no move
		st.target = nil
	}
	if was != which {
		st.settle(which, reason)
		if was != nil {
			st.moved = st.since
		}
		st.quiet()
	}
	if st.timer == nil && !st.asking {
		p.askLaterLocked(k, st)
	}
	p.mu.Unlock()
	if was != which {
		p.announce(k, was, which, reason)
	}
	return true
}

// announce tells the log and the node what serves a pair now.
func (p *Policy) announce(k pair, was, which *Wire, reason string) {
	log := p.opts.Logger.With(zap.Stringer("local", k.local), zap.Stringer("peer", k.remote), zap.String("transport", which.Name), zap.String("reason", reason))
	switch {
	case was != nil:
		log.Warn("peer is served by another transport", zap.String("before", was.Name))
	case which == p.other && k.dials():
		log.Warn("peer is not served by the preferred transport", zap.String("preferred", p.preferred.Name))
	default:
		log.Info("transport chosen")
	}
	p.opts.Changed(k.remote)
	if was != nil && k.dials() {
		p.opts.Leave(k.local, k.remote)
	}
}

// stays gives up a move: the pair's transport could not be dialed.
func (p *Policy) stays(k pair, target *Wire, err error) {
	p.mu.Lock()
	st := p.stateLocked(k)
	if st.target == target {
		st.target = nil
		p.askLaterLocked(k, st)
	}
	p.mu.Unlock()
	p.opts.Logger.Info("peer does not move", zap.Stringer("local", k.local), zap.Stringer("peer", k.remote), zap.String("to", target.Name), zap.Error(err))
}

// gone forgets that a pair is served by the other transport: whoever spoke it has
// ended, and what comes instead may speak the preferred one.
func (p *Policy) gone(k pair) {
	p.mu.Lock()
	st := p.stateLocked(k)
	changed := !st.forced && st.serves == p.other
	if changed {
		st.serves, st.target, st.since, st.reason = nil, nil, time.Time{}, ""
		st.quiet()
	}
	p.mu.Unlock()
	if changed {
		p.opts.Changed(k.remote)
	}
}

// failing notes that the preferred transport is not in use, and returns since when its
// dials have failed.
func (p *Policy) failing(k pair) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	st := p.stateLocked(k)
	if st.away.IsZero() {
		st.away = time.Now()
	}
	return st.away
}

// hangs notes whether the last dial of the preferred transport has met a program that
// does not answer, and returns it.
func (p *Policy) hangs(k pair, err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	st := p.stateLocked(k)
	st.hung = p.opts.Hung(err)
	return st.hung
}

// mayMove tells whether the pair's last move is long enough ago.
func (p *Policy) mayMove(st *state) bool {
	return st.moved.IsZero() || time.Since(st.moved) >= p.opts.Gap
}

// absent tells whether an error of a dial means that nobody there speaks its
// transport.
func (p *Policy) absent(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || p.opts.Absent(err)
}

// why is the reason that err is for not using the preferred transport, in one line.
func (p *Policy) why(err error, since time.Time) string {
	name := p.preferred.Name
	switch {
	case p.opts.Absent(err): // before refusal: a rejection may wrap ECONNREFUSED, too
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
