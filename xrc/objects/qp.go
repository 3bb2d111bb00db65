package objects

import (
	"container/list"
	"net/netip"
	"sync/atomic"
	"time"
)

// Connection is what carries a queue pair's requests. Close ends it for the
// cause given; it is called once at most for each time it was attached, with no
// lock held, and must not wait for the device.
type Connection interface {
	Close(cause error)
	// Changed follows a change of attributes, or of the state to one in which the queue pair works;
	// as Close it must not wait for the device.
	Changed()
}

// Peer names the queue pair at the other end.
type Peer struct {
	Host        netip.Addr `json:"host"`
	Incarnation uint64     `json:"incarnation"` // 0: not known
	QP          Ref        `json:"qp"`
}

// qp is what initiators and targets have in common. A queue pair in the daemon
// costs well below 2 KiB: this, and for targets those registered.
type qp struct {
	dev   *Device
	kind  Type
	owner failer

	implied bool          // see InitiatorAttr.Implied; constant
	state   atomic.Uint32 // a State; written under Device.mu, read by the data path
	accepts atomic.Uint32 // Attr.accepts of attr; written under Device.mu, read by the data path

	// Under Device.mu.
	ref      Ref
	dead     bool  // the queue pair is destroyed and its number given back
	attr     *Attr // nil for a tombstone
	conn     Connection
	peer     Peer
	cause    error         // why state is StateError
	draining bool          // in StateSQD: requests that were started are not done
	waits    *list.Element // place in Device.suspended or Device.errored
	since    time.Time     // when it was suspended, or a target went to StateError
	deadline time.Time     // end of the wait
}

// failer is the Target or Initiator that a qp is part of. failLocked moves it to
// StateError and raises the event; both do nothing if it is there already.
type failer interface {
	failLocked(kind EventKind, cause error)
}

func (q *qp) current() State { return State(q.state.Load()) }

func (q *qp) setLocked(s State) { q.state.Store(uint32(s)) }

// modifyLocked is ibv_modify_qp for both types: either everything that mask
// names is changed, or nothing. It reports the state it was in.
func (q *qp) modifyLocked(a *Attr, m Mask) (from State, err error) {
	from = q.current()
	if q.dead || q.attr == nil {
		return from, ErrNumber
	}
	if m&^allMask != 0 {
		return from, ErrMask
	}
	m = strip(q.kind, m)
	to := from
	if m&MaskState != 0 {
		to = a.State
	}
	if m&MaskCurState != 0 && a.CurState != from { // the rules say which states take MaskCurState at all
		return from, fieldError("Attr.CurState", a.CurState)
	}
	if from == StateSQD && q.draining && to < StateError && to != StateReset {
		return from, ErrState
	}
	if err := transition(q.kind, from, to, m); err != nil {
		return from, err
	}
	if err := a.check(m, &q.dev.config); err != nil {
		return from, err
	}
	if to == StateReset {
		q.resetLocked()
		return from, nil
	}
	q.attr.set(m, a)
	q.accepts.Store(uint32(q.attr.accepts()))
	if from == StateInit && to == StateRTR {
		q.meetLocked(Peer{Host: q.attr.Host, QP: Ref{Number: q.attr.DestQPN}})
	}
	if to != from && to != StateError {
		q.setLocked(to)
	}
	if c := q.conn; c != nil && to != StateError {
		q.dev.later(c.Changed)
	}
	return from, nil
}

// resetLocked makes the queue pair new under its number: whoever knows it by
// its old generation does not reach it any more.
func (q *qp) resetLocked() {
	q.dev.forgetLocked(q)
	q.disconnectLocked(ErrReset)
	q.attr = new(Attr)
	q.peer, q.draining, q.cause = Peer{}, false, nil
	q.ref.Generation = q.dev.nextGeneration()
	q.setLocked(StateReset)
}

// errorLocked is the one way into StateError: nothing but the table entry is
// left. It reports false if the queue pair is there, or cannot get there.
func (q *qp) errorLocked(cause error) bool {
	if s := q.current(); q.dead || s == StateError || s == StateReset {
		return false
	}
	q.dev.forgetLocked(q)
	q.setLocked(StateError)
	q.cause = cause
	q.disconnectLocked(cause)
	return true
}

func (q *qp) disconnectLocked(cause error) {
	q.partLocked()
	if c := q.conn; c != nil {
		q.conn = nil
		q.dev.later(func() { c.Close(cause) })
	}
}

// goneLocked ends it for good.
func (q *qp) goneLocked(cause error) {
	q.dev.forgetLocked(q)
	q.disconnectLocked(cause)
	q.dead, q.attr = true, nil
	if q.cause == nil {
		q.cause = cause // else it is why the queue pair was in StateError already
	}
	q.setLocked(StateError)
	q.dev.freeLocked(q.ref)
}

// attachLocked makes c carry the queue pair.
func (q *qp) attachLocked(c Connection) error {
	switch s := q.current(); {
	case q.dead || q.attr == nil:
		return ErrNumber
	case q.conn != nil || q.waits != nil || s == StateReset || s == StateInit || s == StateError:
		return ErrState
	}
	q.conn = c
	return nil
}

// Info is what a query returns.
type Info struct {
	Ref        Ref
	Attr       Attr // for a tombstone only the state
	Peer       Peer
	Connected  bool
	Suspended  bool      // the connection is lost, and waited for until Deadline
	Deadline   time.Time // if suspended: end of the wait; for a target in StateError: when it becomes a tombstone
	Tombstone  bool      // nothing but the number is left
	Cause      error     // why State is StateError
	Registered int       // sessions registered with a target
	UnknownSRQ uint64    // for a target only: requests for a queue that its domain does not have
	MaxSend    int       // for an initiator only
}

func (q *qp) infoLocked() Info {
	i := Info{Ref: q.ref, Peer: q.peer, Connected: q.conn != nil, Cause: q.cause, Tombstone: q.attr == nil}
	if q.attr != nil {
		i.Attr = *q.attr
	}
	i.Attr.State = q.current()
	i.Attr.CurState = i.Attr.State
	if q.waits != nil && !i.Tombstone {
		i.Deadline = q.deadline
		i.Suspended = i.Attr.State != StateError
	}
	return i
}
