package choice

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"time"

	"go.uber.org/zap"
)

// asking is a transport that can ask a peer whether it would give a link, without
// getting one.
type asking interface {
	Ask(ctx context.Context, local, remote netip.Addr) error
}

// maxQuestions may be under way at the same time; others wait.
const maxQuestions = 16

// askLaterLocked sets the time of the next question to the peer of a pair that the
// other transport serves, and doubles that of the one after it.
func (t *Transport) askLaterLocked(k pair, st *state) {
	if t.asker == nil || t.closed || !k.dials() || t.forced[k.remote] != nil {
		return
	}
	if st.wait == 0 {
		st.wait = t.opts.Ask
	}
	d := st.wait - time.Duration(rand.Int64N(int64(st.wait)/8+1)) // spread, so that peers that were lost together are not asked together
	st.wait = min(2*st.wait, t.opts.AskMax)
	if !st.moved.IsZero() {
		d = max(d, t.opts.Gap-time.Since(st.moved))
	}
	if st.timer != nil {
		st.timer.Stop()
	}
	st.next = time.Now().Add(d)
	st.timer = time.AfterFunc(d, func() { t.begin(k) })
}

// askSoon asks now, because the pair connects anew or its peer has connected, unless it
// was asked less than Options.Ask ago, or could not move.
func (t *Transport) askSoon(k pair) {
	st, _ := t.look(k)
	if st.timer == nil || time.Since(st.asked) < t.opts.Ask || !t.mayMove(&st) {
		return
	}
	t.begin(k)
}

// begin starts a question, unless nobody wants to know any more.
func (t *Transport) begin(k pair) {
	t.mu.Lock()
	defer t.mu.Unlock()
	st := t.pairs[k]
	if t.closed || st == nil || st.asking || st.timer == nil || st.serves != t.opts.Other || st.target != nil || t.forced[k.remote] != nil {
		return
	}
	st.asking, st.asked = true, time.Now()
	t.work.Add(1)
	go func() {
		defer t.work.Done()
		t.ask(k)
	}()
}

// ask asks the peer of a pair, and has the pair move if the answer is yes.
func (t *Transport) ask(k pair) {
	select {
	case t.slots <- struct{}{}:
	case <-t.ctx.Done():
		return
	}
	ctx, cancel := context.WithTimeout(t.ctx, t.opts.Patience)
	err := t.asker.Ask(ctx, k.local, k.remote)
	cancel()
	<-t.slots
	t.mu.Lock()
	st := t.pairs[k]
	if st == nil { // forgotten meanwhile
		t.mu.Unlock()
		return
	}
	st.asking = false
	if t.closed || st.serves != t.opts.Other || t.forced[k.remote] != nil {
		t.mu.Unlock()
		return
	}
	t.askLaterLocked(k, st) // the next question, for the case that the pair does not move
	yes := err == nil && t.mayMove(st)
	t.mu.Unlock()
	if ce := t.opts.Logger.Check(zap.DebugLevel, "peer was asked"); ce != nil {
		ce.Write(zap.Stringer("local", k.local), zap.Stringer("peer", k.remote), zap.Error(err))
	}
	if yes {
		_ = t.Move(k.local, k.remote, t.opts.Preferred.Name(), t.opts.Preferred.Name()+" answers again")
	}
}
