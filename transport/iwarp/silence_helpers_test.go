package iwarp

import (
	"time"
)

// look is what the timer of the watch calls, which is an hour away: no look comes
// earlier than a test wants, however slow the machine is.
func (e *end) look() { e.qp.stream.listen(time.Hour) }

// heard waits until something has come since the last look.
func (e *end) heard() {
	e.t.Helper()
	if !holds(e.qp.stream.shared.watch.heard.Load) {
		e.t.Fatal("nothing has come: ", e.qp.Err())
	}
}

// progress tells whether the peer's TCP has taken something since the last look.
func (e *end) progress() bool {
	acked := e.qp.stream.conn.Acked()
	e.qp.mu.Lock()
	defer e.qp.mu.Unlock()
	return acked != e.qp.stream.shared.watch.acked
}

// chatter writes something that takes nothing of the peer's queues, and waits until the
// peer's TCP has it.
func (e *end) chatter() {
	e.t.Helper()
	q, s := e.qp, e.qp.stream
	q.mu.Lock()
	s.frames = append(s.frames, emptyWrite())
	run := s.kickLocked()
	q.mu.Unlock()
	if run {
		s.transmit()
	}
	if !holds(func() bool { n := s.conn.Written(); return s.conn.Acked() == n && e.progress() }) {
		e.t.Fatal("nothing is acknowledged: ", q.Err())
	}
}
