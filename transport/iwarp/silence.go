package iwarp

import (
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/transport/iwarp/xctl"
)

const (
	defaultSilence = 20 * time.Second
	// The watch looks silenceLooks times in SharedParams.Silence. After askLooks looks
	// that have heard nothing the peer is asked, by a PING; after answerLooks more it is
	// silent. What was heard last came before the look that is not counted, up to one
	// look before: so the peer is found silent no later than Silence after that.
	silenceLooks = 1 + askLooks + answerLooks
	askLooks     = 3
	answerLooks  = 4
)

// watch finds out that a peer is not there any more whose host may still be: TCP
// notices a host that is gone, and is content with one whose program hangs. It looks
// at times whether anything has come, so a connection in use pays a flag for it and
// an idle one a PING per host pair, which takes nothing of anybody's queues.
type watch struct {
	heard atomic.Bool // an FPDU has come whole since the last look

	// Guarded by QP.mu.
	timer *time.Timer
	quiet int    // looks since something came; the PING is sent at askLooks
	acked uint64 // gnetloop.Conn.Acked at the last look
	out   bool   // a PING is in the batch at hand
	ping  uint64 // upper bound of the PING's end in the stream; 0 while the PING waits to be written
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

// arrived notes that a whole FPDU has come, with a good CRC if there are CRCs. The octets of
// a part of one say nothing: if a bit of a length has changed on its way, what comes behind
// it, PONGs among them, looks like the rest of a long FPDU that never ends.
func (s *stream) arrived() {
	if s.shared != nil {
		s.shared.watch.arrived()
	}
}

// arrived notes that the peer has been heard.
func (w *watch) arrived() {
	if !w.heard.Load() { // The flag is mostly set already: then its cache line stays shared.
		w.heard.Store(true)
	}
}

// look tells whether to send a PING now, and whether the peer is silent. heard is
// whether something has come since the last look, acked how much of the stream the
// peer's TCP has acknowledged.
//
// The peer's TCP goes on acknowledging when its program hangs, until its receive buffer
// is full. So acknowledgements put the end off only as long as they are of what goes
// before the PING: the PING is on its way yet, behind what may be a lot on a slow path.
// When the PING has arrived it is the program's turn. A TCP that takes nothing at all
// while the PING waits has closed its window, because its program does not read.
func (w *watch) look(heard bool, acked uint64) (ask, silent bool) {
	arrived := w.ping > 0 && acked >= w.ping
	switch {
	case heard:
		w.quiet, w.ping = 0, 0
	case w.quiet >= askLooks && acked != w.acked && !arrived:
		w.quiet = askLooks
	default:
		w.quiet++
		ask = w.quiet == askLooks
	}
	if ask {
		w.ping = 0
	}
	w.acked = acked
	return ask, w.quiet == askLooks+answerLooks
}

// wroteLocked notes, of the batch with the first PING since look has asked for one,
// where in the stream it ends.
func (w *watch) wroteLocked(end uint64) {
	if w.out && w.ping == 0 && w.quiet >= askLooks {
		w.ping = end
	}
	w.out = false
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
	ask, silent := w.look(w.heard.Swap(false) || s.hold, acked)
	if ask {
		s.shared.nonce++
		s.shared.backlog.Ping(xctl.Ping{Nonce: s.shared.nonce})
		run = s.kickLocked()
	}
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
