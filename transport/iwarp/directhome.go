package iwarp

import (
	"fmt"
	"syscall"

	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// A connection may have several direct queues: one for each application that its
// program serves. The peer finds the right one by what it is told of each kind of
// message, and sends nothing for an application that cannot take it. These are hints:
// what comes for another queue is taken all the same, and what is on its way, too.

// QueueState is what a program tells of a direct queue of its.
type QueueState uint8

// The states.
const (
	QueueReady    = QueueState(xctl.SRQUp)       // messages for the queue are welcome
	QueueNotReady = QueueState(xctl.SRQDraining) // whoever has messages for the queue keeps them until it is ready again
	QueueGone     = QueueState(xctl.SRQGone)     // messages for the queue's ports belong to the first queue, as far as is known
)

// DirectHome tells the peer that messages of a kind, which the programs know by a tag,
// belong to a direct queue of ours. A peer that reads so slowly that many of these wait
// is not told. It and DirectState write nothing themselves: what there is to say leaves
// within 0.4 ms.
func (q *QP) DirectHome(tag, queue uint32) error {
	return q.tell(queue, func(b *xctl.Backlog) { b.Home(xctl.Home{SRQ: xctl.SRQN(queue), Tag: tag}) })
}

// DirectState tells the peer the state of a direct queue of ours.
func (q *QP) DirectState(queue uint32, state QueueState) error {
	return q.tell(queue, func(b *xctl.Backlog) { b.SRQ(xctl.SRQ{SRQ: xctl.SRQN(queue), State: xctl.SRQState(state)}) })
}

// tell has say add to what the peer is told of a direct queue.
func (q *QP) tell(queue uint32, say func(*xctl.Backlog)) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch s := q.stream; {
	case q.state != StateRTS:
		return fmt.Errorf("%w: direct queues in state %v", ErrState, q.state)
	case s.shared == nil || !s.shared.isDirect(xctl.SRQN(queue)):
		return fmt.Errorf("iwarp: direct queue %#x: %w", queue, syscall.EINVAL)
	default:
		say(&s.shared.backlog)
		s.shared.sayLaterLocked(s)
		return nil
	}
}

// directNews passes on what the peer says of its direct queues. What it says of
// queues that cannot be is nothing to us: a later version may have more.
func (r *receiver) directNews(it *xctl.Records) {
	x := r.s.shared
	sink := x.direct.queue.sink
	if it.Type() == xctl.TypeHome {
		if h := it.Home(); x.isDirect(h.SRQ) {
			sink.Home(h.Tag, uint32(h.SRQ))
		}
		return
	}
	if s := it.SRQ(); x.isDirect(s.SRQ) && s.State >= xctl.SRQUp && s.State <= xctl.SRQGone {
		sink.State(uint32(s.SRQ), QueueState(s.State))
	}
}
