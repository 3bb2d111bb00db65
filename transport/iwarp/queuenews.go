package iwarp

import (
	"fmt"
	"syscall"

	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// A program that serves several applications has a queue with a sink for each. The peer
// finds the right queue by what it is told of each kind of message, and sends nothing for
// an application that cannot take it. These are hints: what comes for another queue is
// taken all the same, and so is what is on its way.

// QueueState is what a program tells of a queue of its.
type QueueState uint8

// The states.
const (
	QueueReady    = QueueState(xctl.SRQUp)       // messages for the queue are welcome
	QueueNotReady = QueueState(xctl.SRQDraining) // whoever has messages for the queue keeps them until it is ready again
	QueueGone     = QueueState(xctl.SRQGone)     // messages for the queue's ports belong to the first queue, as far as is known
)

// TellHome tells the peer that messages of a kind, which the programs know by a tag,
// belong to a queue of ours. A peer that reads so slowly that many of these wait is not
// told. It and TellState write nothing themselves: what there is to say leaves within
// 0.4 ms.
func (q *QP) TellHome(tag, queue uint32) error {
	return q.tell(queue, func(b *xctl.Backlog) { b.Home(xctl.Home{SRQ: xctl.SRQN(queue), Tag: tag}) })
}

// TellState tells the peer the state of a queue of ours.
func (q *QP) TellState(queue uint32, state QueueState) error {
	return q.tell(queue, func(b *xctl.Backlog) { b.SRQ(xctl.SRQ{SRQ: xctl.SRQN(queue), State: xctl.SRQState(state)}) })
}

// tell has say add to what the peer is told of a queue of ours.
func (q *QP) tell(queue uint32, say func(*xctl.Backlog)) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch s := q.stream; {
	case q.state != StateRTS:
		return fmt.Errorf("%w: news of queues in state %v", ErrState, q.state)
	case s.shared == nil || s.shared.params.Sink == nil:
		return fmt.Errorf("iwarp: news of queues on a connection without a sink: %w", syscall.EINVAL)
	case !xctl.SRQN(queue).Valid():
		return fmt.Errorf("iwarp: queue: %#x is not in 1..%#x: %w", queue, xctl.MaxSRQN, syscall.EINVAL)
	default:
		say(&s.shared.backlog)
		s.shared.sayLaterLocked(s)
		return nil
	}
}

// queueNews passes on what the peer says of its queues. States of a later version mean
// nothing to us.
func (r *receiver) queueNews(it *xctl.Records) {
	sink := r.s.shared.params.Sink
	if sink == nil {
		return
	}
	if it.Type() == xctl.TypeHome {
		h := it.Home()
		sink.Home(h.Tag, uint32(h.SRQ))
		return
	}
	if s := it.SRQ(); s.State >= xctl.SRQUp && s.State <= xctl.SRQGone {
		sink.State(uint32(s.SRQ), QueueState(s.State))
	}
}
