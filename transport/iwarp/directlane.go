package iwarp

import (
	"sync/atomic"

	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// lane is the sending end of one of the peer's direct queues.
type lane struct {
	num   xctl.SRQN
	limit atomic.Uint32 // the last number that may be used

	// Guarded by QP.mu.
	taken   uint32 // the last number that the peer has taken or refused
	ahead   uint32 // the last number that the peer has taken before the transmitter noted it as sent
	isAhead bool
	waiting uint32 // short messages that wait

	// The transmitter's.
	next  uint32 // number of the message to begin, or that is open; written under QP.mu
	built uint32 // messages that end in the batch at hand
}

// lane is the sending end of the queue of a number, nil if it is not in use. The caller
// is in SendDirect, or holds QP.mu.
func (d *direct) lane(n xctl.SRQN) *lane {
	if n == d.main.num {
		return &d.main
	}
	return d.lanes[n]
}

// useLaneLocked is lane, and puts the queue to use. The caller is in SendDirect.
func (d *direct) useLaneLocked(n xctl.SRQN) *lane {
	l := d.lane(n)
	if l == nil {
		if d.lanes == nil {
			d.lanes = make(map[xctl.SRQN]*lane)
		}
		l = &lane{num: n, next: 1}
		// The peer has told that it takes what comes for it, as for the first.
		l.limit.Store(directFirst)
		d.lanes[n] = l
	}
	return l
}

// directFirst is how many messages another queue than the first takes before its first
// CREDIT.
const directFirst = 256

// useLane is useLaneLocked without the lock; nil: there is no such queue.
func (s *stream) useLane(n xctl.SRQN) *lane {
	d := &s.shared.direct
	l := d.lane(n)
	if l == nil && s.shared.isDirect(n) {
		s.q.mu.Lock()
		l = d.useLaneLocked(n)
		s.q.mu.Unlock()
	}
	return l
}

// writtenLocked follows the write of messages: it takes CREDITs that came before
// they were noted.
func (d *direct) writtenLocked(s *stream) {
	d.writing = false
	if len(d.ahead) == 0 {
		return
	}
	was := d.acked
	for i, l := range d.ahead {
		l.isAhead = false
		if err := d.deliveredLocked(l, l.ahead); err != nil {
			s.brokenLocked(err)
		}
		d.ahead[i] = nil
	}
	d.ahead = d.ahead[:0]
	if d.acked != was {
		d.late.Store(true)
		s.conn.Wake()
	}
}

// begunLocked notes that a segment is on its way.
func (d *direct) begunLocked(c *directCut) {
	d.bytes += uint64(c.n)
	d.op, d.open = c.op, c.lane
	if d.offset += uint32(c.n); !c.last {
		return
	}
	if d.first > 0 && len(d.ends) == cap(d.ends) {
		rest := d.ends[:copy(d.ends, d.ends[d.first:])]
		d.ends, d.first = rest, 0
	}
	d.ends = append(d.ends, directEnd{c.lane, c.lane.next, d.bytes})
	c.lane.next++
	d.offset, d.open = 0, nil
}

// heardLocked takes what the peer says of a direct queue of its.
func (d *direct) heardLocked(r *arrivedRecord) error {
	l := d.lane(r.queue())
	if l == nil {
		return ddp.ErrMSNRange // nothing was sent to that queue
	}
	if r.kind == xctl.TypeNAK {
		return d.nakLocked(l, r.nak)
	}
	if c := &r.credit; int32(c.Limit-l.limit.Load()) > 0 {
		l.limit.Store(c.Limit)
		d.heard.Store(true)
	}
	return d.deliveredLocked(l, r.credit.Delivered)
}

// deliveredLocked notes that the peer has taken, or refused, all messages to a queue up
// to msn. What counts as acknowledged is what lies before the first message that is
// not; as a peer takes what comes at once, that is not long behind.
func (d *direct) deliveredLocked(l *lane, msn uint32) error {
	if int32(msn-l.next) >= 0 {
		if !d.writing {
			return ddp.ErrMSNRange // messages with that number were never sent
		}
		if !l.isAhead {
			l.isAhead, l.ahead = true, msn
			d.ahead = append(d.ahead, l)
		} else if int32(msn-l.ahead) > 0 {
			l.ahead = msn
		}
		return nil
	}
	if int32(msn-l.taken) > 0 {
		l.taken = msn
	}
	for d.first < len(d.ends) {
		e := &d.ends[d.first]
		if int32(e.lane.taken-e.msn) < 0 {
			return nil
		}
		d.acked = e.bytes
		d.first++
	}
	d.ends, d.first = d.ends[:0], 0
	return nil
}

// nakLocked takes a NAK of the peer's direct queue. A message that builds on a Write
// that was refused is as good as delivered: nothing will become of it. Any other
// refusal ends the connection, for the queue takes everything as long as that lives.
func (d *direct) nakLocked(l *lane, n xctl.NAK) error {
	switch {
	case n.Code != xctl.NAKDependency:
		return ddp.ErrNoBuffer
	case int32(n.MSN-l.next) >= 0 && !d.writing && !(n.MSN == l.next && d.open == l):
		return ddp.ErrMSNRange // messages with that number were never begun
	}
	return nil
}
