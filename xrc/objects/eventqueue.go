package objects

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/lockorder"
)

// eventQueue holds a session's events. It never blocks whoever reports one: an
// event that finds it full replaces all that wait by one marker. Events that
// were read and not acknowledged count, so a session that acknowledges none has
// no more than the limit outstanding either.
type eventQueue struct {
	limit int

	mu lockorder.Mutex[eventQueue]
	// Under mu, a leaf.
	queue   []Event
	unacked map[uint64]Ref
	serial  uint64
	lost    uint64
	closed  bool
	changed chan struct{} // closed and made anew when something changes; nil if nobody waits
}

func (q *eventQueue) push(e Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	if len(q.queue)+len(q.unacked) < q.limit {
		q.queue = append(q.queue, e)
	} else {
		n := len(q.queue) + 1
		if len(q.queue) > 0 && q.queue[0].Kind == EventsLost {
			n--
			e.Lost = q.queue[0].Lost
		}
		q.lost += uint64(n)
		q.queue = append(q.queue[:0], Event{Kind: EventsLost, Lost: e.Lost + n})
	}
	q.signalLocked()
}

func (q *eventQueue) signalLocked() {
	if q.changed != nil {
		close(q.changed)
		q.changed = nil
	}
}

// waitLocked is closed at the next change.
func (q *eventQueue) waitLocked() <-chan struct{} {
	if q.changed == nil {
		q.changed = make(chan struct{})
	}
	return q.changed
}

func (q *eventQueue) pop() (e Event, ok bool, changed <-chan struct{}, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) == 0 {
		return e, false, q.waitLocked(), q.closed
	}
	e = q.queue[0]
	q.queue = slices.Delete(q.queue, 0, 1)
	if e.Kind != EventsLost {
		q.serial++
		e.serial = q.serial
		if q.unacked == nil {
			q.unacked = make(map[uint64]Ref)
		}
		q.unacked[e.serial] = e.Object
	}
	return e, true, nil, false
}

func (q *eventQueue) ack(e Event) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e.Kind == EventsLost {
		return nil
	}
	if _, ok := q.unacked[e.serial]; !ok {
		return ErrAcked
	}
	delete(q.unacked, e.serial)
	q.signalLocked()
	return nil
}

// forget removes the events about an object that nobody has read. It fails, and
// removes nothing, while one that was read is not acknowledged; changed then
// tells when to try again.
func (q *eventQueue) forget(object Ref) (changed <-chan struct{}, ok bool) {
	same := func(r Ref) bool { return r.Kind == object.Kind && r.Number == object.Number }
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.unacked {
		if same(r) {
			return q.waitLocked(), false
		}
	}
	q.queue = slices.DeleteFunc(q.queue, func(e Event) bool { return same(e.Object) && e.Kind != EventsLost })
	return nil, true
}

// close discards everything: nobody is there to read or to acknowledge.
func (q *eventQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed, q.queue, q.unacked = true, nil, nil
	q.signalLocked()
}

func (q *eventQueue) lostCount() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lost
}

// NextEvent waits for an event of the session. Whoever gets it acknowledges it
// with Ack; until then the object that it is about cannot be destroyed by this
// session.
func (s *Session) NextEvent(ctx context.Context) (Event, error) {
	for {
		e, ok, changed, closed := s.events.pop()
		switch {
		case ok:
			return e, nil
		case closed:
			return Event{}, ErrClosed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Event{}, ctx.Err()
		}
	}
}

// PollEvent is NextEvent that does not wait.
func (s *Session) PollEvent() (Event, bool) {
	e, ok, _, _ := s.events.pop()
	return e, ok
}

// Ack acknowledges an event. EventsLost needs none.
func (s *Session) Ack(e Event) error { return s.events.ack(e) }

// ackWarning is after how long a destroyer that waits for an acknowledgement
// tells the log, for it may be waiting for itself.
const ackWarning = time.Second

// destroy ends an object under the device's lock once no event about it waits
// to be acknowledged by the session; those not read yet are gone with it. check
// says whether the object can be destroyed and what its events are about; it is
// asked again after every wait.
func (s *Session) destroy(ctx context.Context, check func() (Ref, error), end func()) error {
	d := s.dev
	var warn *time.Timer
	for {
		d.mu.Lock()
		object, err := check()
		if err != nil {
			d.unlock()
			return err
		}
		changed, ok := s.events.forget(object)
		if ok {
			end()
			d.unlock()
			return nil
		}
		d.unlock()
		if warn == nil {
			warn = time.AfterFunc(ackWarning, func() {
				d.log.Warn("destruction waits for an event to be acknowledged", zap.String("session", s.name), zap.Stringer("object", object))
			})
			defer warn.Stop()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return &waitError{ErrUnacked, ctx.Err()}
		}
	}
}

// waitError is a wait that the caller's context ended.
type waitError struct{ what, why error }

func (e *waitError) Error() string   { return e.what.Error() + ": " + e.why.Error() }
func (e *waitError) Unwrap() []error { return []error{e.what, e.why} }
