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
	later, due, lazy := x.touched[:0], x.due[:0], x.lazy[:0]
	atOnce, messages := x.sink.unsaid >= ackBytes, false
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
		delete(x.hungry, rcv)
		if srq != nil {
			n := srq.stock(r.s)
			if n == 0 {
				x.hungry[rcv] = srq // PostReceive wakes us
			} else {
				rcv.Grant(uint32(n))
			}
		}
		many := sunk && atOnce || !sunk && rcv.Unsaid() >= ackMessages
		c, ok := rcv.Credit(anyTime)
		if !ok {
			// It goes as if it had waited: at once, or with what is sent next, if that is soon.
			if c, ok = rcv.Credit(anyTime.Add(xctl.CreditDelay)); ok && !many {
				lazy = append(lazy, c)
				messages = messages || !sunk
				continue
			}
		}
		if ok {
			if sunk {
				x.sink.unsaid = 0
			}
			rcv.Said()
			due = append(due, c)
		}
	}
	x.touched, x.due, x.lazy = later, due, lazy
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
			x.backlog.CreditLater(c)
		}
		wait := sayDelay
		if messages && !x.rides {
			wait = messageDelay
		}
		if !x.says {
			x.sayInLocked(r.s, wait)
		}
	}
}

// anyTime is what receivers are told of the time: CREDITs wait in the backlog.
var anyTime = time.Unix(0, 0)

// Of messages to queues with a sink this many bytes are acknowledged without delay, where
// each message counts as ackCost more.
const (
	ackBytes = 512 << 10
	ackCost  = ackBytes / 64
)

// ackMessages messages to a queue without a sink are acknowledged without delay.
const ackMessages = 32

// CREDITs that are not due leave with the next thing that is sent, such as the program's answer, or
// after sayDelay. Those of queues without a sink wait so long only where that thing has come as soon before, else
// for messageDelay: a program may wait for the completions of its messages.
const (
	sayDelay     = 4 * xctl.CreditDelay
	messageDelay = 2 * xctl.CreditDelay
)

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
		x.rides, x.alone = false, time.Now()
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
