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
		if x.direct.queue != nil && n == x.direct.queue.num { // all direct queues are ready together
			for rcv, srq := range x.hungry {
				if srq == x.direct.queue {
					r.touch(rcv)
				}
			}
		} else if rcv := x.in.Find(n); rcv != nil {
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
	now := time.Unix(0, 0) // direct queues do without the time
	if x.params.Queues != nil {
		now = time.Now()
	}
	patience := now
	if wrote {
		patience = now.Add(xctl.CreditDelay) // other CREDITs are waiting, too
	}
	var wake time.Time
	later, due, lazy := x.touched[:0], x.due[:0], x.direct.lazy[:0]
	atOnce := x.direct.unsaid >= directAck
	for _, rcv := range x.touched {
		delete(x.hungry, rcv)
		own := x.isDirect(rcv.SRQ())
		if own && !x.direct.taking {
			x.hungry[rcv] = x.direct.queue // DirectReady wakes us
			continue                       // nobody has taken anything yet
		}
		if srq := x.find(rcv.SRQ()); srq != nil {
			n := srq.stock(r.s)
			if n == 0 {
				x.hungry[rcv] = srq // PostReceive wakes us
			} else {
				rcv.Grant(uint32(n))
			}
		}
		c, ok := rcv.Credit(patience)
		if !ok && own {
			// It goes as if it had waited: at once, or with the program's answer, if
			// one comes soon. No time it was asked at is later.
			if c, ok = rcv.Credit(now.Add(2 * xctl.CreditDelay)); ok && !atOnce {
				lazy = append(lazy, c)
				continue
			}
		}
		if ok {
			if own {
				x.direct.unsaid = 0
			}
			due = append(due, c)
		} else if at, ok := rcv.Deadline(); ok {
			later = append(later, rcv)
			if wake.IsZero() || at.Before(wake) {
				wake = at
			}
		}
	}
	x.touched, x.due, x.direct.lazy = later, due, lazy
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

// DirectAsk asks the peer to say at once what it has taken from its direct queues: it
// waits for company otherwise. It writes nothing itself.
func (q *QP) DirectAsk() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if s := q.stream; q.state == StateRTS && s.shared != nil && len(s.shared.direct.ends) > 0 {
		s.shared.backlog.Ping(xctl.Ping{Nonce: s.shared.nonce})
		s.shared.sayInLocked(s, 0)
	}
}

// DirectAcked returns how many of the bytes that SendDirect took the peer has taken
// from its direct queue.
func (q *QP) DirectAcked() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stream == nil || q.stream.shared == nil {
		return 0
	}
	return q.stream.shared.direct.acked
}
