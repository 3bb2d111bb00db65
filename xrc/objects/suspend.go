package objects

import "time"

// A connection that is lost is no death: both ends keep their state for Config.Grace and go
// on when there is a connection again. Which messages came by the lost one is for the
// transport to find out: it numbers and keeps them.

// Suspend is called when the connection that carries the queue pair is lost.
func (q *qp) Suspend(now time.Time) error {
	q.dev.mu.Lock()
	defer q.dev.unlock()
	if s := q.current(); q.dead || s < StateRTR || s > StateSQD || q.waits != nil {
		return ErrState
	}
	q.conn = nil
	q.dev.suspended.add(q, now, q.dev.config.Grace)
	return nil
}

// Resume makes c carry the queue pair again, if the one at the other end who wants to go on
// is the one that was there. Whoever comes too late or has lived another life ends it.
func (q *qp) Resume(now time.Time, c Connection, from Peer) error {
	q.dev.mu.Lock()
	defer q.dev.unlock()
	switch s := q.current(); {
	case q.dead || s == StateError:
		return ErrNumber
	case q.waits == nil:
		return ErrState
	}
	cause := error(nil)
	switch {
	case !q.deadline.After(now):
		cause = ErrGrace
	case from.Host != q.peer.Host, !sameQP(from.QP, q.peer.QP):
		return ErrStale
	case q.peer.Incarnation != 0 && from.Incarnation != q.peer.Incarnation:
		cause = ErrIncarnation
	}
	if cause != nil {
		q.owner.failLocked(EventQPFatal, cause)
		return cause
	}
	q.dev.forgetLocked(q)
	q.conn = c
	return nil
}
