package main

import (
	"context"
	"fmt"
	"net/netip"
	"sync"

	"github.com/rds-go/rds/transport/iwarp"
)

// servedQueue is a shared receive queue and the process that answers what comes
// there.
type servedQueue struct {
	*process
	s     *xsrqServer
	index int
	wg    sync.WaitGroup // repliers

	mu        sync.Mutex
	repliers  map[replierKey]*replier // guarded by mu
	connected map[uint32]*replier     // guarded by mu; by number of the initiator
	stopper   *replier                // guarded by mu; who has told us to post no more, nil: nobody
	held      []uint64                // guarded by mu; slots not posted because of that
	messages  uint64                  // guarded by mu; that came
	answered  uint64                  // guarded by mu; messages received that were answered
	dropped   uint64                  // guarded by mu; that were none, or could not be answered
}

// replierKey is whom answers go to.
type replierKey struct {
	host    netip.Addr
	service uint64
}

func newServedQueue(s *xsrqServer, index int, p *process) *servedQueue {
	return &servedQueue{process: p, s: s, index: index, repliers: make(map[replierKey]*replier), connected: make(map[uint32]*replier)}
}

// run serves until ctx ends.
func (q *servedQueue) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer q.wg.Wait()
	defer cancel()
	var list [64]iwarp.Completion
	for {
		n := q.cq.Poll(list[:])
		for i := range list[:n] {
			if err := q.completed(ctx, &list[i]); err != nil {
				return fmt.Errorf("queue %d: %w", q.index, err)
			}
		}
		if n > 0 {
			continue
		}
		if err := q.cq.Wait(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("queue %d: %w", q.index, err)
		}
	}
}

// completed takes the completion of an answer or of a receive. Receives are posted
// again unless the queue is stopped.
func (q *servedQueue) completed(ctx context.Context, c *iwarp.Completion) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.Initiator != 0 {
		if c.Status == iwarp.Success {
			q.answered++
		} else {
			q.dropped++
		}
		if r := q.connected[c.Initiator]; r != nil {
			r.free = append(r.free, int(c.ID))
		}
		return nil
	}
	q.messages++
	if c.Status != iwarp.Success || !q.answerLocked(ctx, c.QP.Peer(), q.received(c)) {
		q.dropped++
	}
	if q.stopper != nil {
		q.held = append(q.held, c.ID)
		return nil
	}
	return q.post(c.ID)
}

// answerLocked answers a message, at once or when there is somebody to. It is false
// if it cannot.
func (q *servedQueue) answerLocked(ctx context.Context, from netip.Addr, b []byte) bool {
	h, ok := parseXsrq(b)
	if !ok || h.kind != xsrqPing && h.kind != xsrqStop {
		return false
	}
	key := replierKey{from, h.service}
	r := q.repliers[key]
	if r == nil {
		if len(q.repliers) == maxRepliers || ctx.Err() != nil {
			return false
		}
		var err error
		if r, err = newReplier(q, key); err != nil {
			return false
		}
		q.repliers[key] = r
		q.wg.Go(func() { r.run(ctx) })
	}
	if h.kind == xsrqStop && q.stopper == nil {
		q.stopper = r
	}
	return r.answerLocked(h.answer, b)
}

// leaveLocked forgets a replier. If it had stopped the queue, the queue goes on.
func (q *servedQueue) leaveLocked(r *replier) error {
	delete(q.repliers, r.key)
	if r.ch != nil {
		delete(q.connected, r.ch.Ref().Number)
	}
	if q.stopper != r {
		return nil
	}
	q.stopper = nil
	for _, slot := range q.held {
		if err := q.post(slot); err != nil {
			return err
		}
	}
	q.held = q.held[:0]
	return nil
}

// servedLine is the end of a queue.
type servedLine struct {
	Type     string `json:"type"` // served
	Index    int    `json:"index"`
	Messages uint64 `json:"messages"`
	Answered uint64 `json:"answered"`
	Dropped  uint64 `json:"dropped"`
}

func (l servedLine) String() string {
	return fmt.Sprintf("queue %d: %d messages, %d answers, %d dropped", l.Index, l.Messages, l.Answered, l.Dropped)
}

func (q *servedQueue) line() servedLine {
	q.mu.Lock()
	defer q.mu.Unlock()
	return servedLine{Type: "served", Index: q.index, Messages: q.messages, Answered: q.answered, Dropped: q.dropped}
}
