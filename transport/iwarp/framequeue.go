package iwarp

import (
	"sync/atomic"

	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// frameQueue is the sending end of one of the peer's queues that frames are sent to, as
// outQueue is that of one that work requests go to. They have the transmitter in common and
// nothing else: a frameQueue keeps no messages, is never refused one for want of memory and
// so sends nothing again, has no turn among others, and is told of CREDITs by the event
// loop under QP.mu, without a run of the transmitter, which an outQueue waits for.
type frameQueue struct {
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

// frameEnd is the end of a message in the bytes sent.
type frameEnd struct {
	queue *frameQueue
	msn   uint32
	bytes uint64
}

// useQueueLocked is the sending end of a queue, and puts it to use. It is nil for a number
// that no queue has. The caller is in SendFrames.
func (x *shared) useQueueLocked(n xctl.SRQN) *frameQueue {
	d := &x.frames
	l := d.queues[n]
	if l != nil || !n.Valid() {
		return l
	}
	l = &frameQueue{num: n, next: 1}
	l.limit.Store(uint32(x.agreed.Peer.Credit))
	if d.heard.Load() && x.agreed.Caps.Has(xctl.CapRNR) {
		l.limit.Store(frameCredit)
	}
	if d.queues == nil {
		d.queues = make(map[xctl.SRQN]*frameQueue)
	}
	d.queues[n] = l
	return l
}

// frameCredit is how many messages a queue takes before its first CREDIT once the peer's
// program takes messages.
const frameCredit = 256

// frameQueue is useQueueLocked for the transmitter, without the lock. It is nil for a number
// that no queue has, or whose queue was sent work requests.
func (s *stream) frameQueue(n uint32) *frameQueue {
	x, num := s.shared, xctl.SRQN(n)
	if l := x.frames.queues[num]; l != nil {
		return l
	}
	if _, rests := x.idle.rests[num]; rests || x.out[num] != nil {
		return nil
	}
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	return x.useQueueLocked(num)
}

// writtenLocked follows the write of messages: it takes CREDITs that came before
// they were noted.
func (d *frameSender) writtenLocked(s *stream) {
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
	}
	s.conn.Wake() // also for tellCompleted
}

// framesTo is the queue that frames are sent to and that a CREDIT or NAK is of, else nil.
func (x *shared) framesTo(r *arrivedRecord) *frameQueue {
	if r.kind != xctl.TypeCredit && r.kind != xctl.TypeNAK {
		return nil
	}
	return x.frames.queues[r.queue()]
}

// heardLocked takes what the peer says of a queue that frames are sent to.
func (d *frameSender) heardLocked(l *frameQueue, r *arrivedRecord) error {
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
func (d *frameSender) deliveredLocked(l *frameQueue, msn uint32) error {
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
		if int32(e.queue.taken-e.msn) < 0 {
			return nil
		}
		d.acked = e.bytes
		d.first++
	}
	d.ends, d.first = d.ends[:0], 0
	return nil
}

// nakLocked takes a NAK of a queue that frames are sent to. A message that builds on a Write
// that was refused is as good as delivered: nothing will become of it. Any other
// refusal ends the connection, for the queue takes everything as long as that lives.
func (d *frameSender) nakLocked(l *frameQueue, n xctl.NAK) error {
	switch {
	case n.Code != xctl.NAKDependency:
		return ddp.ErrNoBuffer
	case int32(n.MSN-l.next) >= 0 && !d.writing && !(n.MSN == l.next && d.open.queue == l):
		return ddp.ErrMSNRange // messages with that number were never begun
	}
	return nil
}
