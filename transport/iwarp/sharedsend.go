package iwarp

import (
	"time"

	"github.com/rds-go/rds/internal/fifo"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// outQueue is the sending end of one of the peer's queues.
type outQueue struct {
	*xctl.Sender
	waiting fifo.Queue[uint32] // messages that have not begun
	to      uint64             // Writes that messages under way build on end here

	// The queue is in shared.turns, or in one of shared.stopped and shared.held, or
	// in none of them if a CREDIT or a new message has to come first.
	turn
	later *later
	at    int    // index in later
	needs uint64 // if in shared.held: the queue waits until the fates of Writes up to this one are known
}

// pop takes the oldest message that has not begun.
func (q *outQueue) pop() (id uint32) {
	id = q.waiting.All()[0]
	q.waiting.Drop(1)
	q.waiting.Shrink(waitingKept)
	return id
}

// waitingKept is the longest list that a queue keeps in which nothing waits.
const waitingKept = 128

// soonerResumed is the order of shared.stopped, soonerKnown that of shared.held.
func soonerResumed(a, b *outQueue) bool {
	at, _ := a.Deadline()
	bt, _ := b.Deadline()
	return at.Before(bt)
}

func soonerKnown(a, b *outQueue) bool { return a.needs < b.needs }

// outMessage is a message to a shared queue, from its turn in the send queue to
// its fate. Its memory is the queue pair's so long: it may have to be sent again.
type outMessage struct {
	slot     sendSlot
	inline   []byte
	refused  uint8     // refusals for want of a receive that count
	counts   time.Time // when the next one counts
	from, to uint64    // range of Writes that the message builds on, counted as in shared.begun; slot.deps is the ordinal of the first
}

// stepLocked takes what the peer has said, completes what is decided, and makes
// the control messages that go out next, but for what waits. The caller is the transmitter.
func (x *shared) stepLocked(s *stream, now time.Time, waits bool) (frames [][]byte) {
	for _, r := range x.arrived {
		if r.kind == xctl.TypeWriteAck || r.kind == xctl.TypeWriteError {
			if err := x.wroteLocked(s, &r); err != nil {
				s.brokenLocked(err)
				break
			}
			continue
		}
		var err error
		q := x.out[r.queue()]
		if q == nil {
			if err = x.idle.heard(&r); err != nil {
				s.brokenLocked(err)
				break
			}
			continue
		}
		if r.kind == xctl.TypeCredit {
			err = q.Credit(r.credit)
		} else {
			err = q.NAK(r.nak, now)
			if err == nil && r.nak.Code == xctl.NAKNotReady {
				x.dryLocked(s.q, q, now)
			}
		}
		if err != nil {
			s.brokenLocked(err)
			break
		}
		x.settleLocked(s.q, q)
		x.list(q, now)
	}
	x.arrived = x.arrived[:0]
	x.abandonLocked(s)
	x.letGo()
	x.lent = 0
	frames = x.resume(s, now, x.step[:0])
	if q := x.stopped.first(); q != nil {
		at, _ := q.Deadline()
		x.wakeAtLocked(s, now, at)
	}
	pings := x.backlog.Pings()
	for n := 0; n < maxControl && !x.backlog.Empty() && !waits; n++ {
		frames = append(frames, x.backlog.AppendTo(x.controlHeader(), s.tx.ulpdu-ddp.UntaggedLen))
	}
	x.watch.out = pings && !x.backlog.Pings()
	if x.says && x.backlog.Empty() {
		x.says = false
		x.sayTimer.Stop()
	}
	x.step = frames
	return frames
}

// resume makes the RESUMEs of the queues whose time has come. They go at once and
// not by the backlog, for the messages that they speak of may follow in the batch.
func (x *shared) resume(s *stream, now time.Time, frames [][]byte) [][]byte {
	most := min(s.tx.ulpdu, ddp.UntaggedLen+xctl.MaxMessage)
	for q := x.stopped.first(); q != nil && q.Next(now) == xctl.StepResume; q = x.stopped.first() {
		n := len(frames) - 1
		if n < 0 || len(frames[n])+xctl.TypeResume.Len() > most {
			frames = append(frames, x.controlHeader())
			n++
		}
		frames[n] = xctl.AppendTo(frames[n], q.Resume())
		x.stopped.remove(q)
		x.turns.add(q)
	}
	return frames
}

// letGo gives a turn to the queues that waited for Writes whose fate is known.
func (x *shared) letGo() {
	for q := x.held.first(); q != nil && q.needs <= x.written; q = x.held.first() {
		x.held.remove(q)
		x.turns.add(q)
	}
}

// controlHeader begins the next control message, in memory that is used again after
// the next step.
func (x *shared) controlHeader() []byte {
	x.control++
	if x.lent == len(x.scratch) {
		x.scratch = append(x.scratch, make([]byte, 0, 128))
	}
	b := xctl.Header(x.control).AppendTo(x.scratch[x.lent])
	x.lent++
	return b
}

// maxControl is how many control messages go before data at a time.
const maxControl = 16

// settleLocked completes the messages to q whose fate is known.
func (x *shared) settleLocked(qp *QP, q *outQueue) {
	comps := qp.comps[:0]
	comps = x.decidedLocked(qp, comps, q)
	qp.comps = comps
	qp.pushSends(comps)
}

// decidedLocked frees the messages to q whose fate is known.
func (x *shared) decidedLocked(qp *QP, comps []Completion, q *outQueue) []Completion {
	for o, ok := q.Pop(); ok; o, ok = q.Pop() {
		status, vendor := sharedStatus(o.Code), uint32(o.Code)
		if o.Withdrawn {
			status, vendor = x.msgs[o.ID].slot.status, x.msgs[o.ID].slot.vendor
		}
		comps = x.doneLocked(qp, comps, uint32(o.ID), status, vendor)
	}
	return comps
}

// doneLocked frees a message.
func (x *shared) doneLocked(qp *QP, comps []Completion, id uint32, status Status, vendor uint32) []Completion {
	w := &x.msgs[id].slot
	if status != Success || w.flags&Signaled != 0 || qp.cfg.SignalAll {
		c := Completion{ID: w.id, QP: qp, Op: w.op, Status: status, Queue: uint32(w.queue)}
		if status == Success {
			c.Len = w.length
		} else {
			c.Vendor = vendor
		}
		comps = append(comps, c)
	}
	x.msgs[id].slot.deps = 0
	x.free = append(x.free, id)
	x.undecided.Add(-1)
	return comps
}

// wakeAtLocked has the event loop look again at a time, or before. Both halves
// ask for it, and the earlier one counts: who is woken too early asks again.
func (x *shared) wakeAtLocked(s *stream, now, at time.Time) {
	if x.wakeAt.After(now) && !at.Before(x.wakeAt) {
		return
	}
	overdue := !x.wakeAt.After(now)
	x.wakeAt = at
	d := max(at.Sub(now), 0)
	if x.timer == nil {
		x.timer = time.AfterFunc(d, s.conn.Wake)
		return
	}
	if x.timer.Reset(d) && overdue {
		s.conn.Wake() // the overdue timer would have called Wake
	}
}

// detach moves a message from the send queue, where it has had its turn, to its
// queue's own: from here on it holds up nobody else.
// It tells whether the message builds on Writes.
func (x *shared) detach(qp *QP, index uint32) (q *outQueue, builds bool) {
	w := &qp.slots[index]
	var id uint32
	if n := len(x.free); n > 0 {
		id, x.free = x.free[n-1], x.free[:n-1]
	} else {
		id = uint32(len(x.msgs))
		x.msgs = append(x.msgs, outMessage{})
	}
	m := &x.msgs[id]
	m.slot, m.refused, m.counts = *w, 0, time.Time{}
	m.to = x.begun
	m.from = m.to - min(m.to, uint64(w.deps))
	if x.spoiled(w.deps) {
		m.from = m.to
		m.slot.status, m.slot.vendor = RemoteAccess, uint32(xctl.NAKDependency)
	}
	if m.slot.deps = 0; m.from < m.to {
		m.slot.deps = x.firstOf(uint32(m.to - m.from))
	}
	if w.inline > 0 {
		m.inline = append(m.inline[:0], qp.inlineOf(index)[:w.inline]...)
	}
	q = x.queue(w.queue)
	q.waiting.Push(id)
	if q.later == nil {
		x.turns.add(q)
	}
	return q, m.slot.deps != 0
}

// ahead gives a queue the next turn, unless it is stopped.
func (x *shared) ahead(q *outQueue) {
	if q.later == &x.stopped {
		return
	}
	if q.later != nil {
		q.later.remove(q)
	}
	x.turns.ahead(q)
}

// list puts a queue that the peer has said something of where it belongs now.
func (x *shared) list(q *outQueue, now time.Time) {
	switch q.Next(now) {
	case xctl.StepWait, xctl.StepResume:
		x.wait(q, &x.stopped)
	default:
		if q.later == nil {
			x.turns.add(q)
		}
	}
}

// wait has a queue wait in l.
func (x *shared) wait(q *outQueue, l *later) {
	switch {
	case q.inTurn():
		x.turns.remove(q)
	case q.later != nil && q.later != l:
		q.later.remove(q)
	}
	l.add(q)
}

// hold has a queue wait until the fate of so many Writes is known.
func (x *shared) hold(q *outQueue, writes uint64) {
	q.needs = writes
	x.wait(q, &x.held)
}

// pickShared opens the next message to a shared queue, each queue in its turn.
func (s *stream) pickShared(now time.Time) bool {
	x := s.shared
	for q := x.turns.head(); q != nil; q = x.turns.head() {
		switch step := q.Next(now); {
		case step == xctl.StepReplay && x.written < q.to:
			x.hold(q, q.to)
			continue
		case step == xctl.StepReplay:
			id, msn := q.Replay()
			x.dep, _ = x.dependency(&x.msgs[id])
			x.current, x.id, x.msn = q, uint32(id), msn
		case step == xctl.StepNew && q.waiting.Len() > 0:
			m := &x.msgs[q.waiting.All()[0]]
			var ok bool
			if x.dep, ok = x.dependency(m); !ok {
				x.hold(q, m.to)
				continue
			}
			if m.slot.deps != 0 {
				q.to = max(q.to, m.to)
			}
			id := q.pop()
			x.current, x.id, x.msn = q, id, q.Begin(uint64(id))
		case step == xctl.StepWait, step == xctl.StepResume:
			x.wait(q, &x.stopped)
			continue
		default:
			x.turns.remove(q) // a CREDIT or a new message brings it back
			continue
		}
		x.named = false
		return true
	}
	return false
}

// sharedSegment appends the next segment of a message to a shared queue.
func (s *stream) sharedSegment() {
	x, t, b := s.shared, &s.tx, &s.tx.batch
	m, q := &x.msgs[x.id], x.current
	w := &m.slot
	n := min(w.length-t.offset, w.most(t, false))
	last := t.offset+n == w.length
	if t.offset == 0 && !x.named && (w.status != Success || !last && !s.whole(w)) {
		s.withdraw(q)
		return
	}
	if t.offset > 0 && q.Cut() {
		n, last = 0, true // the peer drops a message that is cut short
	}
	h := ddp.Untagged{Last: last, ULP: w.opcode().Control(), QN: w.queue.QN(), MSN: x.msn, MO: t.offset}
	switch {
	case !x.named && x.agreed.Caps.Has(xctl.CapQP):
		h.ULPData, x.named = x.writes.QPData(w.qp, x.dep), true
		if w.op == OpSendInvalidate {
			h.Last, last = false, false
		}
	case w.op == OpSendInvalidate:
		h.ULPData = uint32(w.invalidate)
	default:
		h.ULPData = x.dep
	}
	switch {
	case w.op == OpImmediate:
		b.begin(ddp.UntaggedLen + rdmap.ImmediateLen)
		b.stage.B = rdmap.Immediate(w.args[0]).AppendTo(h.AppendTo(b.stage.B))
	case n > 0 && w.inline > 0:
		b.begin(ddp.UntaggedLen + int(n))
		b.stage.B = append(h.AppendTo(b.stage.B), m.inline[t.offset:][:n]...)
	default:
		b.begin(ddp.UntaggedLen + int(n))
		b.stage.B = h.AppendTo(b.stage.B)
		if fault := s.gather(w, t.offset, n); fault != mr.None && t.offset == 0 {
			b.drop()
			w.status, w.vendor = LocalProtection, uint32(fault)
			s.withdraw(q)
			return
		} else if fault != mr.None {
			// It has gone since the message began, of which the peer has got a part
			// and must not take that for the whole.
			t.doom(failure{err: fault, status: Flushed, vendor: uint32(fault)})
			return
		}
	}
	b.end(mark{})
	t.offset += n
	if last {
		q.End()
		t.open = false
		x.turns.spend(q, t.offset)
	}
}

// brokenLocked ends the connection because of what the peer has said; the
// transmitter, who has found it, does so with its next segment.
func (s *stream) brokenLocked(err error) {
	f := s.refused(rdmap.NewTerminate(rdmap.CauseOf(err), nil), mr.None)
	s.tx.doomed = &f
}

// detached is how many outstanding messages are not in the send queue's ring any
// more, less those that are decided and still there, behind a read.
func (s *stream) detached() int {
	if s == nil || s.shared == nil {
		return 0
	}
	return int(s.shared.undecided.Load())
}

// undecided tells whether the peer has something to say yet of what was sent. The
// caller is the transmitter.
func (s *stream) undecided() bool {
	x := s.shared
	return x != nil && (len(x.free) < len(x.msgs) || x.writes.Outstanding() > 0 || len(x.frames.ends) > 0)
}

// flushLocked completes all messages to shared queues, in the order in which they
// began in each; nothing is sent or received any more.
func (x *shared) flushLocked(qp *QP, comps []Completion) []Completion {
	for _, q := range x.out {
		comps = x.decidedLocked(qp, comps, q)
		for {
			msn, sent := q.Number()
			id, ok := q.Lost()
			if !ok {
				break
			}
			comps = x.doneLocked(qp, comps, uint32(id), Flushed, 0)
			last := &comps[len(comps)-1]
			last.Serial, last.Sent = msn, sent
		}
		for q.waiting.Len() > 0 {
			comps = x.doneLocked(qp, comps, q.pop(), Flushed, 0)
		}
	}
	clear(x.out)
	x.idle = idleQueues{}
	x.turns, x.stopped.list, x.held.list = turns{}, nil, nil
	for nonce, done := range x.pings {
		delete(x.pings, nonce)
		close(done)
	}
	if x.timer != nil {
		x.timer.Stop()
	}
	x.watch.stopLocked()
	return comps
}
