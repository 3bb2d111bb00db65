package iwarp

import (
	"time"

	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// touchFed touches the queues that have got memory since they were hungry.
func (r *receiver) touchFed() {
	x := r.s.shared
	if len(x.hungry) == 0 {
		return
	}
	x.fedMu.Lock()
	for _, n := range x.fed {
		if rcv := x.in.Find(n); rcv != nil {
			r.touch(rcv)
		}
	}
	x.fed = x.fed[:0]
	x.fedMu.Unlock()
}

// acknowledge makes the CREDITs that are due for the queues touched by the burst
// at hand, and for those that were empty and are not.
func (r *receiver) acknowledge() {
	x := r.s.shared
	if x == nil || r.dead {
		return
	}
	r.touchFed()
	if len(x.touched) == 0 && !x.wrote {
		return
	}
	a, wrote := xctl.WriteAck{}, false
	if x.wrote {
		x.wrote = false
		a, wrote = x.placed.Ack()
	}
	var now, patience, wake time.Time
	later, due, lazy := x.touched[:0], x.due[:0], x.sink.credits[:0]
	atOnce := x.sink.unsaid >= ackBytes
	for _, rcv := range x.touched {
		srq := x.find(rcv.SRQ())
		if srq == nil && !rcv.Open() { // a sender without credit would wait for a queue that has gone
			delete(x.hungry, rcv)
			if c, ok := x.in.Remove(rcv.SRQ()); ok {
				due = append(due, c)
			}
			continue
		}
		sunk := srq != nil && srq.sink
		if sunk && !x.sink.taking {
			later = append(later, rcv) // SinkReady wakes us: nobody has taken anything yet
			continue
		}
		if now.IsZero() && !sunk { // queues with a sink do without the time
			now = time.Now()
			if patience = now; wrote {
				patience = now.Add(xctl.CreditDelay) // other CREDITs are waiting, too
			}
		}
		delete(x.hungry, rcv)
		if srq != nil {
			n := srq.stock(r.s)
			if n == 0 {
				x.hungry[rcv] = srq // PostReceive wakes us
			} else {
				rcv.Grant(uint32(n))
			}
		}
		asked := patience
		if sunk {
			asked = sinkTime
		}
		c, ok := rcv.Credit(asked)
		if !ok && !sunk && rcv.Unsaid() >= ackMessages { // a sender that may have few outstanding waits for it
			c, ok = rcv.Credit(now.Add(xctl.CreditDelay))
		}
		if !ok && sunk {
			// It goes as if it had waited: at once, or with the program's answer, if
			// one comes soon.
			if c, ok = rcv.Credit(sinkTime.Add(xctl.CreditDelay)); ok && !atOnce {
				lazy = append(lazy, c)
				continue
			}
		}
		if ok {
			if sunk {
				x.sink.unsaid = 0
			}
			due = append(due, c)
		} else if at, ok := rcv.Deadline(); ok {
			later = append(later, rcv)
			if wake.IsZero() || at.Before(wake) {
				wake = at
			}
		}
	}
	x.touched, x.due, x.sink.credits = later, due, lazy
	q := r.s.q
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range due {
		x.backlog.Credit(c)
	}
	if wrote {
		x.backlog.WriteAck(a)
	}
	r.kick = r.kick || wrote || len(due) > 0
	if len(lazy) > 0 {
		for _, c := range lazy {
			x.backlog.Credit(c)
		}
		x.sayLaterLocked(r.s)
	}
	if !wake.IsZero() {
		x.wakeAtLocked(r.s, now, wake)
	}
}

// sinkTime is what receivers of queues with a sink are told of the time: their CREDITs wait
// for the program's answer and not for a time.
var sinkTime = time.Unix(0, 0)

// Of messages to queues with a sink this many bytes are acknowledged without delay, where
// each message counts as ackCost more.
const (
	ackBytes = 512 << 10
	ackCost  = ackBytes / 64
)

// ackMessages messages to a queue without a sink are acknowledged without delay.
const ackMessages = 32

// sayDelay is how long what there is to say about queues with a sink waits for company.
const sayDelay = 4 * xctl.CreditDelay

// sayLaterLocked has what there is to say said after a while, if nothing that is sent
// takes it along before.
func (x *shared) sayLaterLocked(s *stream) {
	if !x.says {
		x.sayInLocked(s, sayDelay)
	}
}

func (x *shared) sayInLocked(s *stream, wait time.Duration) {
	x.says = true
	if x.sayTimer != nil {
		x.sayTimer.Reset(wait)
		return
	}
	x.sayTimer = time.AfterFunc(wait, func() {
		s.q.mu.Lock()
		x.says = false
		run := !x.backlog.Empty() && !s.q.over && s.kickLocked()
		s.q.mu.Unlock()
		if run {
			s.transmit()
		}
	})
}

// AskAcked asks the peer to say at once what frames it has taken: it waits for company
// otherwise. It writes nothing itself.
func (q *QP) AskAcked() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if s := q.stream; q.state == StateRTS && s.shared != nil && len(s.shared.frames.ends) > 0 {
		s.shared.backlog.Ping(xctl.Ping{Nonce: s.shared.nonce})
		s.shared.sayInLocked(s, 0)
	}
}

// FramesSent returns how many bytes of frames SendFrames has taken.
func (q *QP) FramesSent() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stream == nil || q.stream.shared == nil {
		return 0
	}
	return q.stream.shared.frames.sent
}

// FramesAcked returns how many bytes of the frames that SendFrames took the peer's sink has
// taken.
func (q *QP) FramesAcked() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stream == nil || q.stream.shared == nil {
		return 0
	}
	return q.stream.shared.frames.acked
}
