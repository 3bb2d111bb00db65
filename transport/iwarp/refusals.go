package iwarp

import (
	"fmt"
	"syscall"

	"github.com/rds-go/rds/transport/iwarp/xctl"
)

var errUnread = fmt.Errorf("iwarp: the peer does not read what it is told: %w", syscall.ENOBUFS)

// Refusal is why a program has not delivered messages that its sink was given.
type Refusal uint8

// The reasons.
const (
	RefusedPort    = Refusal(xctl.RefusedPort)    // nobody is bound to the port that the messages are for
	RefusedUnknown = Refusal(xctl.RefusedUnknown) // the receiver does not know whether the messages are delivered
	RefusedLength  = Refusal(xctl.RefusedLength)  // the messages are longer than the receiver takes
)

// refusals are what our program has refused, guarded by QP.mu. A PING that follows finds
// out what of it the peer's program has heard: the PONG comes from who has handled the
// REFUSED records before it.
type refusals struct {
	told  uint64 // number of messages refused
	asked uint64 // refused messages that precede the PING
	nonce uint64 // nonce of the PING
	asks  bool   // the PING waits for its PONG
}

// Refuse tells the peer that messages which its SendFrames has sent were not
// delivered; number is the program's own for them. The sink calls it when it is given the
// message, from Feed or Filled: the peer hears of it before the message counts as
// acknowledged. It is false if the peer does not know refusals. It fails where a
// peer reads too little of what it is told: the caller ends the connection, or the message
// would be acknowledged.
func (q *QP) Refuse(number uint64, why Refusal) (bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.refusesLocked() {
		return false, nil
	}
	s, x := q.stream, q.stream.shared
	if !x.backlog.Refused(xctl.Refused{First: number, Count: 1, Code: xctl.RefusedCode(why)}) {
		return false, errUnread
	}
	x.refusals.told++
	x.sayLaterLocked(s)
	return true, nil
}

// Refuses tells whether the peer knows refusals.
func (q *QP) Refuses() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.refusesLocked()
}

func (q *QP) refusesLocked() bool {
	s := q.stream
	return s != nil && s.shared != nil && s.shared.params.Sink != nil && s.shared.agreed.Caps.Has(xctl.CapRefused)
}

// askLocked has the peer asked what it has heard of the refusals told so far, at the end
// of a burst.
func (r *refusals) askLocked(s *stream) {
	x := s.shared
	if r.asks || r.asked == r.told || !x.agreed.Caps.Has(xctl.CapPing) {
		return
	}
	x.nonce++
	r.asks, r.asked, r.nonce = true, r.told, x.nonce
	x.backlog.Ping(xctl.Ping{Nonce: x.nonce})
	x.sayLaterLocked(s)
}

// ponged takes a PONG and returns how many refusals the peer has heard, 0 if that is no
// news.
func (r *refusals) ponged(q *QP, nonce uint64) (heard uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !r.asks || nonce < r.nonce {
		return 0
	}
	r.asks = false
	return r.asked
}

// refused passes on what the peer has refused.
func (r *receiver) refused(m xctl.Refused) {
	x := r.s.shared
	known := m.Code >= xctl.RefusedPort && m.Code <= xctl.RefusedLength
	if x.params.Sink != nil && x.agreed.Caps.Has(xctl.CapRefused) && known && m.Count > 0 {
		x.params.Sink.Refused(m.First, m.Count, Refusal(m.Code))
	}
}
