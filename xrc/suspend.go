package xrc

import "time"

// A connection that is lost is no death: both ends keep their state for
// Config.Grace and compare sequence numbers when there is a connection again.
// The initiator says which request is the oldest it has no acknowledgement of
// (una) and which comes next; the target has received everything before
// expected, which must lie between them. Requests from expected on are sent
// again, those before it are done, none is executed twice.

// Suspend is called when the connection that carries the target is lost. All
// requests before expected, and no other, are executed.
func (t *Target) Suspend(now time.Time, expected uint32) error {
	t.dev.mu.Lock()
	defer t.dev.unlock()
	return t.suspendLocked(now, expected)
}

func (q *qp) suspendLocked(now time.Time, psn uint32) error {
	if s := q.current(); q.dead || s < StateRTR || s > StateSQD || q.waits != nil {
		return ErrState
	}
	q.conn = nil
	q.psn = psn & maxNumber
	q.dev.suspended.add(q, now, now.Add(q.dev.config.Grace))
	return nil
}

// resumeLocked checks whether the one who wants to go on is the one that was
// there. Whoever comes too late or has lived another life ends it.
func (q *qp) resumeLocked(now time.Time, from Peer, first, psn, last uint32) error {
	switch s := q.current(); {
	case q.dead || s == StateError:
		return ErrNumber
	case q.waits == nil:
		return ErrState
	}
	cause := error(nil)
	switch {
	case !q.waits.Value.(waiting).deadline.After(now):
		cause = ErrGrace
	case from.Host != q.peer.Host, !sameQP(from.QP, q.peer.QP):
		return ErrStale
	case q.peer.Incarnation != 0 && from.Incarnation != q.peer.Incarnation:
		cause = ErrIncarnation
	case !psnWithin(first, psn, last):
		cause = ErrMissing
	}
	if cause != nil {
		q.owner.failLocked(EventQPFatal, cause)
		return cause
	}
	q.dev.forgetLocked(q)
	return nil
}

// Resume makes c carry the target again, for an initiator that says what it has
// to send. It returns which request is expected first.
func (t *Target) Resume(now time.Time, c Connection, from Peer, una, next uint32) (expected uint32, err error) {
	t.dev.mu.Lock()
	defer t.dev.unlock()
	if err := t.resumeLocked(now, from, una&maxNumber, t.psn, next&maxNumber); err != nil {
		return 0, err
	}
	t.conn = c
	return t.psn, nil
}

// Suspend is called when the connection that carries the initiator is lost:
// requests from una to the one before next were sent, and are not acknowledged.
func (i *Initiator) Suspend(now time.Time, una, next uint32) error {
	i.dev.mu.Lock()
	defer i.dev.unlock()
	una, next = una&maxNumber, next&maxNumber
	if !psnWithin(una, next, next) {
		return ErrAttribute
	}
	if err := i.suspendLocked(now, next); err != nil {
		return err
	}
	i.una = una
	return nil
}

// Pending is what Suspend was told, for the peer to compare.
func (i *Initiator) Pending() (una, next uint32) {
	i.dev.mu.Lock()
	defer i.dev.unlock()
	return i.una, i.psn
}

// Resume makes c carry the initiator again, with a target that expects a certain
// request: those before it are done, the others are to be sent once more.
func (i *Initiator) Resume(now time.Time, c Connection, from Peer, expected uint32) error {
	i.dev.mu.Lock()
	defer i.dev.unlock()
	if err := i.resumeLocked(now, from, i.una, expected&maxNumber, i.psn); err != nil {
		return err
	}
	i.conn = c
	return nil
}
