package iwarp

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// DirectParams describe a shared receive queue that belongs to one connection and
// has no memory posted: what arrives for it goes to the program as it comes. It is
// for a program that keeps what it sends until the peer has it, and would only copy
// it twice if the queue pair kept it too.
//
// Both sides have such a queue, under the same number. It takes DirectEarly bytes
// before QP.DirectReady, and everything after. A program that serves several
// applications gives each a queue of its own, beside that one: see Home.
type DirectParams struct {
	// Number is how messages name the queue, 1 to 0xFFFFFE. It and the next ones, up
	// to Number+Others, must not be of SharedParams.Queues.
	Number uint32
	// Others is how many more such queues there are, under the numbers that follow.
	Others uint32
	// Sink takes the bytes of the messages, one after the other, of all queues.
	Sink Sink
	// Reservation, if the peer has one too, bounds what is under way: messages are sent
	// within octets that the receiver has granted, see QP.DirectClaim. nil: nothing
	// but the sender bounds it.
	Reservation *Reservation
}

// Sink takes what arrives for the direct queues of a connection. All methods but
// Writable and Closed are called on the connection's event loop, without locks, and
// must not block.
type Sink interface {
	// Feed is given the next bytes of the messages and takes all of them. They are
	// valid during the call. An error ends the connection.
	Feed(b []byte) error
	// Queue says which queue the messages that follow came for, if it is another one
	// than before; the first is DirectParams.Number.
	Queue(number uint32)
	// Home and State are what the peer has said with QP.DirectHome and DirectState.
	Home(tag, queue uint32)
	State(queue uint32, s QueueState)
	// Full is what the peer has said with QP.DirectFull.
	Full(tag uint32, full bool)
	// Refused is what the peer has said with QP.DirectRefuse, before DirectAcked counts
	// the messages.
	Refused(first uint64, count uint32, why Refusal)
	// Heard tells that the peer's sink has been told of the first n messages that we
	// have refused.
	Heard(n uint64)
	// Space returns where the next bytes belong, nil if nowhere in particular; last
	// tells that what follows it belongs elsewhere. Filled tells how many were put
	// there, and follows each Space that was not nil.
	Space() (dst []byte, last bool)
	Filled(n int)
	// Flush is the end of a burst.
	Flush()
	// Begun tells how many bytes the peer still has to send of the message at hand, 0 if it
	// has begun none, and the message's number. The connection ends when the peer does not
	// go on with it. Any goroutine may call it.
	Begun() (number uint64, left int)
	// Acked says that QP.DirectAcked has grown.
	Acked()
	// Writable follows a SendDirect that took less than all, and a DirectWant that was
	// false. It may come from inside
	// any call that posts or sends, and before that SendDirect has returned.
	Writable()
	// Closed is the end of the queue pair: nothing of the above but a Writable that
	// has begun comes after it. It has a goroutine of its own.
	Closed(err error)
}

// Cut tells how much of the bytes from position pos of a SendDirect on, which take n
// when they are all that is left, one segment of at most room bytes carries, whether
// a message ends with it, and which of the peer's direct queues it is for; that is the
// same for all segments of a message. Positions ascend, but for those that are asked
// again because nothing was taken.
type Cut func(pos, room int) (n int, last bool, queue uint32)

// direct is the sending end of the peer's direct queues, and the receiving end of ours.
type direct struct {
	queue  *SRQ // receiving end of our first direct queue
	octets directOctets

	// Guarded by QP.mu.
	want  bool   // a SendDirect took less than all bytes: Writable is due
	after bool   // the message of that SendDirect waits until what was posted has been sent
	stuck *lane  // the lane that waits for credit; nil: no lane does
	acked uint64 // bytes of messages that the peer has taken or refused
	ends  []directEnd
	first int // index in ends of the oldest message that is not acknowledged

	// While a batch is being written the peer may already acknowledge messages that the
	// transmitter has not noted yet. It notes the acknowledgements after the write.
	writing bool
	later   bool        // timer runs
	timer   *time.Timer // sends acknowledgements that were put off
	ahead   []*lane     // lanes of which the peer has taken messages that the transmitter has not noted

	refusals refusals

	heard atomic.Bool // the peer's program takes messages
	late  atomic.Bool // acked has grown by messages taken, and the sink has not heard

	// The event loop's.
	taking  bool          // the sink has been given all that came before DirectReady
	fed     bool          // the sink has been given bytes since its last Flush
	unsaid  uint32        // bytes of messages taken since the last CREDIT
	others  []*SRQ        // receiving ends of the other direct queues, made when first used
	current xctl.SRQN     // queue of the last message that came
	inside  bool          // the message of current is not whole yet
	lazy    []xctl.Credit // scratch of acknowledge

	short []shortMessage // short messages that were copied and are not in a batch yet
	spare [][]byte       // memory of short messages, to use again

	// The transmitter's. lanes are who calls SendDirect's, and written under QP.mu.
	main   lane
	lanes  map[xctl.SRQN]*lane // lanes of the other direct queues, made when first used
	built  []directCut         // messages of short that are in the batch at hand
	offset uint32              // offset of the next segment of the message that is open; 0: no message is open
	open   *lane               // lane of the open message
	op     rdmap.Op            // kind of the open message
	bytes  uint64              // payload bytes of all segments begun
	cuts   []directCut
}

// directEnd is the end of a message in the bytes sent.
type directEnd struct {
	lane  *lane
	msn   uint32
	bytes uint64
}

// directCut is a segment of the batch at hand.
type directCut struct {
	start, n int // offset of the FPDU in the batch, and length of its payload
	last     bool
	op       rdmap.Op
	lane     *lane
}

func (d *direct) init(p *DirectParams, credit uint8) error {
	if !xctl.SRQN(p.Number).Valid() {
		return fmt.Errorf("iwarp: direct queue %#x: %w", p.Number, syscall.EINVAL)
	}
	if !xctl.SRQN(p.Number+p.Others).Valid() || p.Others > maxDirect {
		return fmt.Errorf("iwarp: %d direct queues after %#x: %w", p.Others, p.Number, syscall.EINVAL)
	}
	d.queue = &SRQ{num: xctl.SRQN(p.Number), sink: p.Sink}
	d.current = d.queue.num
	d.main.num, d.main.next = d.queue.num, 1
	d.main.limit.Store(uint32(credit))
	return nil
}

// maxDirect is the most direct queues beside the first.
const maxDirect = 1 << 16

// DirectReady says that the sink takes all messages. Sink.Flush follows on the event
// loop.
func (q *QP) DirectReady() {
	q.mu.Lock()
	s := q.stream
	q.mu.Unlock()
	if s == nil || s.shared == nil || s.shared.direct.queue == nil {
		return
	}
	s.shared.direct.queue.ready.Store(true)
	s.shared.feed(s.shared.direct.queue.num)
	s.conn.Wake()
}

// isDirect tells whether a number is that of a direct queue.
func (x *shared) isDirect(n xctl.SRQN) bool {
	d := &x.direct
	return d.queue != nil && n >= d.queue.num && uint32(n-d.queue.num) <= x.params.Direct.Others
}

// receiving is the receiving end of the direct queue of a number. The caller is the
// event loop.
func (d *direct) receiving(n xctl.SRQN) *SRQ {
	if n == d.queue.num {
		return d.queue
	}
	i := int(n - d.queue.num - 1)
	for len(d.others) <= i {
		d.others = append(d.others, nil)
	}
	if d.others[i] == nil {
		d.others[i] = &SRQ{num: n, sink: d.queue.sink}
	}
	return d.others[i]
}

// find is the shared receive queue of a number, nil if there is none.
func (x *shared) find(n xctl.SRQN) *SRQ {
	if x.isDirect(n) {
		return x.direct.receiving(n)
	}
	if x.params.Queues == nil {
		return nil
	}
	return x.params.Queues.Find(uint32(n))
}

// SendDirect sends leading bytes of bufs, as many as there is room for, to the peer's
// direct queues, and returns their number; the memory is the caller's again. Less than
// all with a nil error means that Sink.Writable follows once. cut says where segments
// and messages end. One goroutine at a time calls it.
//
// after has the bytes follow all that was posted before. With builds, the message
// that they begin with builds on so many Writes posted right before, and is all there
// is in this call: it is refused if one of them was.
func (q *QP) SendDirect(bufs [][]byte, cut Cut, after bool, builds uint32) (taken int, err error) {
	total := 0
	for _, b := range bufs {
		total += len(b)
	}
	for first := true; ; {
		if taken == total && taken > 0 {
			return taken, nil // whatever has become of the connection
		}
		q.mu.Lock()
		s := q.stream
		switch {
		case q.state == StateError || q.state == StateSQD:
			err = q.failed.err
			if err == nil {
				err = ErrClosed
			}
			q.mu.Unlock()
			return taken, err
		case s == nil || s.shared == nil || s.shared.direct.queue == nil || s.tx.batch.markers != nil:
			q.mu.Unlock()
			return taken, badRequest("a connection without direct queues")
		}
		d := &s.shared.direct
		if taken == total {
			q.mu.Unlock()
			return taken, nil
		}
		d.after = after
		if first {
			d.stuck, first = nil, false
		}
		if taken == 0 && d.takesShortLocked(q, total, after) {
			n, last, queue := cut(0, total)
			if !s.shared.isDirect(xctl.SRQN(queue)) {
				q.mu.Unlock()
				return taken, badRequest("a direct queue that there is not")
			}
			if l := d.useLaneLocked(xctl.SRQN(queue)); n == total && last && d.mayBegin(l, l.next+l.waiting, d.bytes+uint64(len(d.short))*shortMost) {
				run := d.addShortLocked(q, l, bufs, total, after, builds) && s.kickLocked()
				q.mu.Unlock()
				if run {
					s.transmit()
				}
				return total, nil
			}
		}
		q.letGoLocked()
		if !s.kickLocked() { // the goroutine that is sending also sends what was held back
			d.want = true
			q.mu.Unlock()
			return taken, nil
		}
		if s.hold || !d.roomLocked() {
			d.want = true
			q.mu.Unlock()
			s.transmit() // sends what was held back
			return taken, nil
		}
		if d.behindLocked(s) {
			q.mu.Unlock()
			s.transmit()
			q.mu.Lock()
			if s.sending || s.blocked || d.behindLocked(s) {
				d.want = true
				q.mu.Unlock()
				return taken, nil
			}
			q.mu.Unlock()
			continue
		}
		// What there is to say goes first: it may be what the peer waits for.
		var frames [][]byte
		free := s.tx.doomed == nil && s.tx.batch.empty() && !s.tx.open
		if free {
			var now time.Time
			if len(s.shared.out) > 0 {
				now = time.Now()
			}
			frames = s.framesLocked(now)
			s.again = !s.shared.backlog.Empty() // there may be more to say than framesLocked takes at a time
			d.writing = true
		}
		q.mu.Unlock()
		if free {
			n, on, err := s.directBatch(frames, bufs, taken, total, cut, after, builds)
			if taken += n; !on {
				return taken, err
			}
			if err != nil {
				s.transmit()
				return taken, err
			}
		}
		s.transmit() // sends the rest of the batch, and what others have added
		q.mu.Lock()
		wait := taken < total && (s.blocked || s.sending)
		if wait {
			d.want = true
		}
		q.mu.Unlock()
		if wait {
			return taken, nil
		}
	}
}

// roomLocked tells whether a message may begin.
func (d *direct) roomLocked() bool {
	l := d.stuck
	if l == nil {
		l = &d.main
	}
	return d.offset > 0 || d.mayBegin(l, l.next, d.bytes)
}

// mayBegin tells whether a message of this number may follow so many bytes. What it
// looks at only ever allows more.
func (d *direct) mayBegin(l *lane, msn uint32, bytes uint64) bool {
	return int32(l.limit.Load()-msn) >= 0 && (d.heard.Load() || bytes < DirectEarly)
}

// directAck is how many bytes are acknowledged without delay, where each message
// counts as directCost more.
const (
	directAck  = 512 << 10
	directCost = directAck / 64
)

// directDelay is how long what there is to say of direct queues waits for company.
const directDelay = 4 * xctl.CreditDelay

// DirectEarly is how many bytes of messages a direct queue is sent before
// DirectReady, and the rest of a message that has begun.
const DirectEarly = 64 << 10

// wantLocked tells, once, that a SendDirect which took less than all can go on.
func (s *stream) wantLocked() bool {
	x := s.shared
	if x == nil || !x.direct.want || s.hold || !x.direct.roomLocked() || x.direct.behindLocked(s) {
		return false
	}
	x.direct.want = false
	return true
}

// directBatch writes frames and segments of bufs, from position pos on, as far as
// the socket takes them. Of a segment that it takes a part of the rest stays in the
// batch. The caller is the transmitter; unless it may go on it is not any more: all is
// sent, the socket is full, or there was an error.
func (s *stream) directBatch(frames, bufs [][]byte, pos, total int, cut Cut, after bool, builds uint32) (taken int, on bool, err error) {
	t, b, d := &s.tx, &s.tx.batch, &s.shared.direct
	b.reset()
	for _, f := range frames {
		b.add(f)
	}
	d.cuts = d.cuts[:0]
	dep := s.shared.directDependency(b, builds)
	mo, from := d.offset, pos
	op, l := d.op, d.open // all segments of a message have the same op and lane
	room := int(t.most(false))
	left := slicesFrom(bufs, pos)
	var stuck *lane
	for !b.full() && pos < total {
		n, last, queue := cut(pos, room)
		if mo == 0 {
			if l = s.useLane(xctl.SRQN(queue)); l == nil {
				err = badRequest("a direct queue that there is not")
				break
			}
			if !d.mayBegin(l, l.next+l.built, d.bytes+uint64(pos-from)) {
				stuck = l
				break
			}
			op = directOp(after)
		}
		h := ddp.Untagged{Last: last, ULP: op.Control(), QN: l.num.QN(), MSN: l.next + l.built, MO: mo, ULPData: dep}
		d.cuts = append(d.cuts, directCut{start: b.size, n: n, last: last, op: op, lane: l})
		b.begin(ddp.UntaggedLen + n)
		b.stage.B = h.AppendTo(b.stage.B)
		left.take(n, b)
		b.end(mark{})
		pos += n
		if mo += uint32(n); last {
			l.built++
			mo = 0
		}
	}
	for i := range d.cuts {
		d.cuts[i].lane.built = 0
	}
	n, size, bad := 0, b.size, err
	if err = nil; size > 0 {
		n, err = s.write()
	}
	if n > 0 && !s.spoke.Load() {
		s.firstWrite()
	}
	keep := 0 // batch bytes of frames, and of segments that have begun
	if len(d.cuts) == 0 {
		keep = size
	} else {
		keep = d.cuts[0].start
	}
	s.q.mu.Lock()
	for i := range d.cuts {
		c := &d.cuts[i]
		if c.start >= n {
			break
		}
		if keep = size; i+1 < len(d.cuts) {
			keep = d.cuts[i+1].start
		}
		d.begunLocked(c)
		taken += c.n
	}
	d.writtenLocked(s)
	d.stuck = stuck
	failed := s.q.state == StateError // whoever failed the queue pair relies on this goroutine to end the sending
	switch {
	case err != nil && !failed:
		// The connection is ending, and Closed follows.
		b.reset()
		s.blocked, s.sending = true, false
	case n == size && pos == total && s.idleLocked():
		// All is sent, and what others add from now on they send.
		b.reset()
		b.release()
		s.shared.watch.wroteLocked(s.conn.Written())
		s.sending = false
	case n < size && n >= keep && !s.writable && !failed:
		// It is full, though nothing is left of what has begun.
		b.reset()
		s.blocked, s.sending, d.want = true, false, true
	default:
		b.keep(n, keep)
		on = true
		if n < size && b.empty() {
			s.writable = false
		}
	}
	s.q.mu.Unlock()
	if on {
		err = bad
	}
	return taken, on, err
}

// idleLocked tells whether a transmitter whose batch is written has nothing more to send,
// and no Writable to call.
func (s *stream) idleLocked() bool {
	return !s.again && s.q.state == StateRTS && s.tx.doomed == nil && s.tx.next == s.q.tail && !s.shared.direct.want
}

// sayLaterLocked has what there is to say said after a while, if nothing that is sent
// takes it along before.
func (x *shared) sayLaterLocked(s *stream) {
	if !x.direct.later {
		x.sayInLocked(s, directDelay)
	}
}

func (x *shared) sayInLocked(s *stream, wait time.Duration) {
	d := &x.direct
	d.later = true
	if d.timer == nil {
		d.timer = time.AfterFunc(wait, func() {
			s.q.mu.Lock()
			d.later = false
			run := !x.backlog.Empty() && !s.q.over && s.kickLocked()
			s.q.mu.Unlock()
			if run {
				s.transmit()
			}
		})
		return
	}
	d.timer.Reset(wait)
}
