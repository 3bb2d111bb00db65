package main

import (
	"context"
	"fmt"
	"time"

	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/transport/xrc"
)

const (
	maxRepliers = 8 // repliers of one queue
	// maxAnswers may be under way to one host. Each of its senders waits for one, but
	// goes on when it has it, which may be before we have heard so: hence the factor.
	maxAnswers = 4 * maxXsrqSenders
)

// replier is how one queue answers to a domain of another host: an initiator, which
// reaches all queues there. It lives until the domain ends.
//
// Answers are copied, so that a host that does not take them keeps no receive of
// ours; those of a host that has as many under way as it may are dropped.
type replier struct {
	q   *servedQueue
	key replierKey
	mem *iwarp.MR

	ch      *xrc.Channel // guarded by q.mu; nil until connected
	free    []int        // guarded by q.mu; slots of mem
	waiting []outgoing   // guarded by q.mu; messages that wait for ch
}

// outgoing is an answer in a slot.
type outgoing struct {
	slot, len int
	queue     uint32
}

func newReplier(q *servedQueue, key replierKey) (*replier, error) {
	mem, err := q.pd.RegMR(make([]byte, maxAnswers*q.size), 0, 0)
	if err != nil {
		return nil, err
	}
	r := &replier{q: q, key: key, mem: mem}
	for i := range maxAnswers {
		r.free = append(r.free, maxAnswers-1-i)
	}
	return r, nil
}

// run connects, and waits for the end of the connection.
func (r *replier) run(ctx context.Context) {
	q := r.q
	step, cancel := context.WithTimeout(ctx, time.Duration(q.s.o.timeout))
	ch, err := q.s.h.Connect(step, q.Session, xrc.ChannelAttr{PD: q.pd, CQ: q.cq, Local: q.s.h.addr, Remote: r.key.host,
		Service: r.key.service, MaxSend: maxAnswers})
	cancel()
	if err == nil {
		q.mu.Lock()
		r.ch = ch
		q.connected[ch.Ref().Number] = r
		for _, o := range r.waiting {
			if !r.sendLocked(o) {
				q.dropped++
			}
		}
		r.waiting = nil
		q.mu.Unlock()
		select {
		case <-ch.Done():
		case <-ctx.Done():
		}
	}
	q.mu.Lock()
	q.dropped += uint64(len(r.waiting))
	again := q.leaveLocked(r)
	q.mu.Unlock()
	if ctx.Err() != nil {
		return // the end of the host does the rest
	}
	for _, err := range []error{err, again} {
		if err != nil {
			q.s.out.print(queueProblem{Type: "error", Index: q.index, Error: fmt.Sprintf("answers to %v: %v", r.key.host, err)})
		}
	}
	step, cancel = context.WithTimeout(ctx, time.Duration(q.s.o.timeout))
	defer cancel()
	if ch != nil {
		_ = ch.Close(step)
	}
	_ = r.mem.Dereg(step)
}

// answerLocked sends the answer to b to a queue of the host, or keeps it until there
// is a channel. It is false if too many are under way, or the message is wrong.
func (r *replier) answerLocked(queue uint32, b []byte) bool {
	if len(r.free) == 0 {
		return false
	}
	o := outgoing{slot: r.free[len(r.free)-1], len: len(b), queue: queue}
	r.free = r.free[:len(r.free)-1]
	mem := r.mem.Bytes()[o.slot*r.q.size:]
	copy(mem, b)
	makeAnswer(mem)
	if r.ch == nil {
		r.waiting = append(r.waiting, o)
		return true
	}
	return r.sendLocked(o)
}

func (r *replier) sendLocked(o outgoing) bool {
	_, err := r.ch.PostSend(iwarp.WorkRequest{ID: uint64(o.slot), Flags: iwarp.Signaled, Queue: o.queue,
		SGE: []iwarp.SGE{r.mem.SGE(o.slot*r.q.size, o.len)}})
	if err != nil { // no queue has the number
		r.free = append(r.free, o.slot)
	}
	return err == nil
}

// queueProblem is what went wrong with answers of a queue.
type queueProblem struct {
	Type  string `json:"type"` // error
	Index int    `json:"index"`
	Error string `json:"error"`
}

func (p queueProblem) String() string { return fmt.Sprintf("queue %d: %s", p.Index, p.Error) }
