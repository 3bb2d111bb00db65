package objects

import (
	"container/list"
	"time"
)

// deadlines are queue pairs in the order of when something happens to them.
// Each is in one such list at most (qp.waits). Under Device.mu.
type deadlines struct{ list list.List }

// add puts q behind all that end before it, which are nearly always all.
func (l *deadlines) add(q *qp, since time.Time, wait time.Duration) {
	q.since, q.deadline = since, since.Add(wait)
	at := l.list.Back()
	for at != nil && at.Value.(*qp).deadline.After(q.deadline) {
		at = at.Prev()
	}
	if at == nil {
		q.waits = l.list.PushFront(q)
	} else {
		q.waits = l.list.InsertAfter(q, at)
	}
}

// forgetLocked takes q off the list it is in, if it is in one.
func (d *Device) forgetLocked(q *qp) {
	if q.waits != nil {
		d.suspended.list.Remove(q.waits) // does nothing to elements of other lists
		d.errored.list.Remove(q.waits)
	}
	q.waits, q.since, q.deadline = nil, time.Time{}, time.Time{}
}

// first returns whose time comes first, nil if nobody waits.
func (l *deadlines) first() *qp {
	if e := l.list.Front(); e != nil {
		return e.Value.(*qp)
	}
	return nil
}

// due returns whose time has come.
func (l *deadlines) due(now time.Time) *qp {
	if q := l.first(); q != nil && !q.deadline.After(now) {
		return q
	}
	return nil
}

// Expire does what is due: it ends queue pairs whose connection was lost for
// longer than Config.Grace, and makes tombstones of targets that have been in
// StateError for longer than Config.Reap. It returns when to call it again, the
// zero time if nothing waits.
func (d *Device) Expire(now time.Time) (next time.Time) {
	d.mu.Lock()
	defer d.unlock()
	for q := d.suspended.due(now); q != nil; q = d.suspended.due(now) {
		q.owner.failLocked(EventQPFatal, ErrGrace)
	}
	for q := d.errored.due(now); q != nil; q = d.errored.due(now) {
		q.owner.(*Target).buryLocked()
	}
	for _, q := range [...]*qp{d.suspended.first(), d.errored.first()} {
		if q != nil && (next.IsZero() || q.deadline.Before(next)) {
			next = q.deadline
		}
	}
	return next
}
