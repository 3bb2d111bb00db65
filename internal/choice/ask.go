package choice

import (
	"context"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"
)

// maxQuestions may be under way at the same time; others wait.
const maxQuestions = 16

// asksLocked tells whether there is something to ask the peer of a pair: the other transport
// serves the pair, and it may move.
func (p *Policy) asksLocked(k pair, st *state) bool {
	return p.ctx.Err() == nil && k.dials() && st.serves == p.other && !st.forced
}

// askLaterLocked sets the time of the next question, if there is one, and doubles that of
// the one after it.
func (p *Policy) askLaterLocked(k pair, st *state) {
	if !p.asksLocked(k, st) {
		return
	}
	if st.wait == 0 {
		st.wait = p.opts.AskAfter
	}
	d := st.wait - time.Duration(rand.Int64N(int64(st.wait)/8+1)) // spread, so that peers that were lost together are not asked together
	st.wait = min(2*st.wait, p.opts.AskMax)
	if !st.moved.IsZero() {
		d = max(d, p.opts.Gap-time.Since(st.moved))
	}
	if st.timer != nil {
		st.timer.Stop()
	}
	st.next = time.Now().Add(d)
	st.timer = time.AfterFunc(d, func() { p.begin(k, false) })
}

// begin starts a question, if the pair could move. soon is a question before its time,
// because the pair connects anew or its peer has connected: it is not asked less than
// Times.AskAfter after the last one.
func (p *Policy) begin(k pair, soon bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	st := p.pairs[k]
	switch {
	case st == nil || st.timer == nil || st.asking || st.target != nil || !p.asksLocked(k, st):
		return
	case soon && (time.Since(st.asked) < p.opts.AskAfter || !p.mayMove(st)):
		return
	}
	st.asking, st.asked = true, time.Now()
	p.work.Go(func() { p.ask(k) })
}

// ask asks the peer of a pair, and has the pair move if the answer is yes.
func (p *Policy) ask(k pair) {
	select {
	case p.slots <- struct{}{}:
	case <-p.ctx.Done():
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, p.opts.Patience)
	err := p.opts.Ask(ctx, k.local, k.remote)
	cancel()
	<-p.slots
	p.mu.Lock()
	st := p.lookLocked(k) // not known, if it was forgotten meanwhile
	st.asking = false
	p.askLaterLocked(k, st) // for the case that the pair does not move
	move := err == nil && p.asksLocked(k, st) && p.mayMove(st)
	p.mu.Unlock()
	if ce := p.opts.Logger.Check(zap.DebugLevel, "peer was asked"); ce != nil {
		ce.Write(zap.Stringer("local", k.local), zap.Stringer("peer", k.remote), zap.Error(err))
	}
	if move {
		_ = p.Move(k.local, k.remote, p.preferred.Name, p.preferred.Name+" answers again")
	}
}
