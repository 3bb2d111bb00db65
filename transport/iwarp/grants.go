package iwarp

import (
	"fmt"
	"math"
	"syscall"

	"github.com/rds-go/rds/transport/iwarp/rdmap"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// Where both sides have a SharedParams.Reservation, frames are sent
// within octets that the receiving side has granted. The program claims octets before it
// decides which messages to send, and sends no more than it has claimed; nothing is
// granted before the peer's SinkReady. What arrives beyond the granted octets ends the
// connection.

// Reservation bounds the octets that the peers of several connections may have under way
// to queues with a sink, together.
type Reservation = xctl.Reservation

// NewReservation makes a Reservation of total octets, or of most, the longest message,
// if that is more.
func NewReservation(total, most int) *Reservation { return xctl.NewReservation(total, most) }

// octets is what a connection has on which octets are granted.
type octets struct {
	on   bool           // both sides have a Reservation; constant
	mine xctl.Allowance // guarded by QP.mu, but for Claim and Unclaim

	share *xctl.Share // octets that the peer may send; nil before SinkReady; set by the event loop under QP.mu

	// The event loop's.
	open  int         // octets received of the message at hand
	whole int         // octets of whole messages received since the last Flush
	start uint64      // octets received before the segment at hand
	last  int         // octets of the segment at hand
	early xctl.Return // the peer's RETURN, if it came before there was a share
	grant *xctl.Grant // the peer's GRANT, if it came before the sink took messages; nil: none came
	woken bool        // the octets that Want has asked for are there
}

// arrived counts a segment of n octets. It is false if that is more than was granted.
func (o *octets) arrived(n int) bool {
	if !o.on {
		return true
	}
	o.start, o.last = o.start+uint64(o.last), n
	o.open += n
	return o.share != nil && o.share.Arrived(n)
}

// ended notes that the message at hand is whole, or was refused.
func (o *octets) ended() { o.whole, o.open = o.whole+o.open, 0 }

// grantOctets grants the peer its first octets once the sink takes messages, and more as
// the sink has had those that came. It follows a Flush of the sink: the FULL records that
// the sink has caused go first.
func (r *receiver) grantOctets() {
	s, x := r.s, r.s.shared
	o := &x.octets
	switch {
	case !o.on || r.dead || !x.sink.taking:
		return
	case o.share == nil:
		share := x.params.Reservation.Join(s.tellGrant)
		s.q.mu.Lock()
		o.share = share
		s.q.mu.Unlock()
		s.tellGrant()
		err := r.returned(o.early)
		if g := o.grant; g != nil && err == nil {
			o.grant = nil
			err = r.granted(*g)
		}
		if err != nil {
			r.refuse(rdmap.CauseOf(err), nil)
		}
		return
	}
	grant, urgent := o.share.Delivered(o.whole)
	o.whole = 0
	if !grant {
		return
	}
	g := o.share.Grant()
	s.q.mu.Lock()
	x.backlog.Grant(g)
	if !urgent {
		x.sayLaterLocked(s)
	}
	s.q.mu.Unlock()
	r.kick = r.kick || urgent
}

// returned takes a RETURN. An error ends the connection.
func (r *receiver) returned(ret xctl.Return) error {
	o := &r.s.shared.octets
	if o.share == nil {
		o.early = ret
		return nil
	}
	return o.share.Returned(ret)
}

// tellGrant tells the peer of octets that others have left, or asks for some.
func (s *stream) tellGrant() {
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	if s.shared.octets.share != nil && !s.q.over {
		s.shared.backlog.Grant(s.shared.octets.share.Grant())
		s.shared.sayInLocked(s, 0)
	}
}

// granted takes a GRANT. Before the sink takes messages, and with them FULL records, it
// waits. An error ends the connection.
func (r *receiver) granted(g xctl.Grant) error {
	x := r.s.shared
	switch {
	case !x.octets.on:
		return nil
	case x.octets.share == nil:
		x.octets.grant = &g
		return nil
	}
	r.s.q.mu.Lock()
	defer r.s.q.mu.Unlock()
	answer, wake, err := x.octets.mine.Heard(g)
	if err != nil {
		return err
	}
	x.frames.heard.Store(true)
	x.octets.woken = x.octets.woken || wake
	if answer {
		x.backlog.Return(x.octets.mine.Return())
		r.kick = true
	}
	return nil
}

// Claim takes the octets that may be sent as frames. They are
// the caller's: to be used by SendFrames, or to be put back. Without a Reservation there
// is no bound.
func (q *QP) Claim() int {
	if o := q.grants(); o != nil {
		return o.mine.Claim()
	}
	return math.MaxInt
}

// Unclaim puts back octets that were claimed and are not going to be used.
func (q *QP) Unclaim(n int) {
	o := q.grants()
	if o == nil || n == 0 || !o.mine.Unclaim(n) {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stream.shared.backlog.Return(o.mine.Return())
	q.stream.shared.sayInLocked(q.stream, 0)
}

// Want tells whether n octets can be claimed. If not the peer is asked for them,
// and Sink.Writable follows. It writes nothing itself.
func (q *QP) Want(n int) bool {
	o := q.grants()
	if o == nil {
		return true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	ret, enough := o.mine.Want(n)
	if !enough {
		q.stream.shared.backlog.Return(ret)
		q.stream.shared.sayInLocked(q.stream, 0)
	}
	return enough
}

// grants is what the connection has if octets are granted on it, else nil. The caller
// knows that the connection is established.
func (q *QP) grants() *octets {
	if s := q.stream; s != nil && s.shared != nil && s.shared.octets.on {
		return &s.shared.octets
	}
	return nil
}

// Reserves tells whether both sides have a Reservation.
func (q *QP) Reserves() bool { return q.grants() != nil }

// TellFull tells the peer whether there is room for messages of a kind, which the
// programs know by a tag. It precedes all octets that are granted after the call. It
// returns how many octets were granted before, since the connection began.
func (q *QP) TellFull(tag uint32, full bool) (granted uint64, err error) {
	o := q.grants()
	if o == nil {
		return 0, fmt.Errorf("iwarp: octets are not granted: %w", syscall.EOPNOTSUPP)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state == StateError {
		return 0, fmt.Errorf("%w: %v", ErrState, q.state)
	}
	x := q.stream.shared
	x.backlog.Full(xctl.Full{Tag: tag, On: full})
	x.sayLaterLocked(q.stream)
	if o.share == nil {
		return 0, nil
	}
	return o.share.Bound(), nil
}

// Started is how many octets of messages had come before the segment that is being
// given to the sink. It is for the sink.
func (q *QP) Started() uint64 {
	if o := q.grants(); o != nil {
		return o.start
	}
	return 0
}
