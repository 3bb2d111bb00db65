package iwarp

import (
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/transport/iwarp/xctl"
)

const (
	defaultSilence = 10 * time.Second
	// silenceLooks is how often the watch looks in the time of SharedParams.Silence.
	silenceLooks = 4
)

// watch finds out that a peer is not there any more whose host may still be: TCP
// notices a host that is gone, and is content with one whose program hangs. It looks
// at times whether anything has come, so a connection in use pays a flag for it and
// an idle one a PING per host pair, which takes nothing of anybody's queues.
type watch struct {
	heard atomic.Bool // something has come since the last look

	// Guarded by QP.mu.
	timer *time.Timer
	quiet int    // looks since something has come; the PING is sent at silenceLooks
	acked uint64 // gnetloop.Conn.Acked at the last look
}

func (p *SharedParams) silence() time.Duration {
	switch {
	case p.Silence < 0:
		return 0
	case p.Silence == 0:
		return defaultSilence
	}
	return max(p.Silence, silenceLooks)
}

// watchLocked begins the watch if the peer answers PINGs.
func (s *stream) watchLocked() {
	x := s.shared
	if d := x.params.silence() / silenceLooks; d > 0 && x.agreed.Caps.Has(xctl.CapPing) {
		x.watch.timer = time.AfterFunc(d, func() { s.listen(d) })
	}
}

// arrived notes that the peer has been heard.
func (w *watch) arrived() {
	if !w.heard.Load() { // which it mostly is: the flag's cache line stays shared
		w.heard.Store(true)
	}
}

// listen is what the timer calls, every d.
func (s *stream) listen(d time.Duration) {
	q, w := s.q, &s.shared.watch
	acked := s.conn.Acked()
	q.mu.Lock()
	if q.state == StateError {
		q.mu.Unlock()
		return
	}
	run := false
	switch {
	case w.heard.Swap(false) || s.hold:
		w.quiet = 0
	case w.quiet >= silenceLooks && acked != w.acked:
		w.quiet = silenceLooks // what goes before the PING is on its way yet
	default:
		if w.quiet++; w.quiet == silenceLooks {
			s.shared.nonce++
			s.shared.backlog.Ping(xctl.Ping{Nonce: s.shared.nonce})
			run = s.kickLocked()
		}
	}
	w.acked = acked
	silent := w.quiet == 2*silenceLooks
	if !silent {
		w.timer.Reset(d)
	}
	q.mu.Unlock()
	switch {
	case silent:
		q.fail(failure{err: ErrSilent, status: Flushed, abort: true})
	case run:
		s.transmit()
	}
}

func (w *watch) stopLocked() {
	if w.timer != nil {
		w.timer.Stop()
	}
}
