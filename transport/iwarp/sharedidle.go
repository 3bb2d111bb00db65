package iwarp

import (
	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// idleQueues are the peer's queues that were sent to and that nothing is outstanding
// to, when there are many. The peer counts on with the numbers of a queue for as long
// as it likes, so a few octets are kept of each number that ever was in use; there
// are 2^24.
type idleQueues struct {
	rests map[xctl.SRQN]xctl.Rest
	at    int // number of other queues at which the next idle ones are looked for
}

// outMost is how many queues are kept whole before those that are idle are looked for.
const outMost = 4096

// heard takes what the peer says of an idle queue.
func (i *idleQueues) heard(r *arrivedRecord) error {
	rest, ok := i.rests[r.queue()]
	if !ok || r.kind != xctl.TypeCredit {
		return ddp.ErrMSNRange // nothing was sent to it, or nothing that it could refuse
	}
	if err := rest.Credit(r.credit); err != nil {
		return err
	}
	i.rests[r.queue()] = rest
	return nil
}

// queue is the sending end of one of the peer's queues.
func (x *shared) queue(n xctl.SRQN) *outQueue {
	q := x.out[n]
	if q != nil {
		return q
	}
	if len(x.out) >= max(outMost, x.idle.at) {
		x.lookForIdle()
	}
	q = new(outQueue)
	credit, retries := x.agreed.Peer.Credit, x.params.Retries
	if rest, ok := x.idle.rests[n]; ok {
		q.Sender = rest.Sender(n, credit, retries)
		delete(x.idle.rests, n)
	} else {
		q.Sender = xctl.NewSender(n, credit, retries)
	}
	x.out[n] = q
	return q
}

// lookForIdle has idle queues rest. Those that are busy are looked at again when
// there are twice as many, so that it costs each queue little.
func (x *shared) lookForIdle() {
	for n, q := range x.out {
		rest, ok := q.Rest()
		if !ok || q.waiting.Len() > 0 || q.due > x.turns.round {
			continue // a queue with a debt waits for its turn
		}
		if q.inTurn() {
			x.turns.remove(q)
		}
		if q.later != nil {
			q.later.remove(q)
		}
		if x.idle.rests == nil {
			x.idle.rests = make(map[xctl.SRQN]xctl.Rest)
		}
		x.idle.rests[n] = rest
		delete(x.out, n)
	}
	x.idle.at = 2 * len(x.out)
}
