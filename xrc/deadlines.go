package xrc

import (
	"container/list"
	"time"
)

// deadlines are queue pairs in the order of when something happens to them.
// Each is in one such list at most (qp.waits). Under Device.mu.
type deadlines struct{ list list.List }

type waiting struct {
	q        *qp
	since    time.Time
	deadline time.Time
}

func (l *deadlines) init() { l.list.Init() }

// add puts q behind all that end before it, which are nearly always all.
func (l *deadlines) add(q *qp, since, deadline time.Time) {
	at := l.list.Back()
	for at != nil && at.Value.(waiting).deadline.After(deadline) {
		at = at.Prev()
	}
	w := waiting{q, since, deadline}
	if at == nil {
		q.waits = l.list.PushFront(w)
	} else {
		q.waits = l.list.InsertAfter(w, at)
	}
}

// forgetLocked takes q off the list it is in, if it is in one.
func (d *Device) forgetLocked(q *qp) {
	if q.waits == nil {
		return
	}
	for _, l := range [...]*deadlines{&d.suspended, &d.errored, &d.tombs} {
		l.list.Remove(q.waits) // does nothing to elements of other lists
	}
	q.waits = nil
}

// first returns whose time comes first.
func (l *deadlines) first() (w waiting, ok bool) {
	if e := l.list.Front(); e != nil {
		return e.Value.(waiting), true
	}
	return w, false
}

// due returns whose time has come.
func (l *deadlines) due(now time.Time) *qp {
	if w, ok := l.first(); ok && !w.deadline.After(now) {
		return w.q
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
	for _, l := range [...]*deadlines{&d.suspended, &d.errored} {
		if w, ok := l.first(); ok && (next.IsZero() || w.deadline.Before(next)) {
			next = w.deadline
		}
	}
	return next
}
