package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc"
)

const (
	maxRepliers = 8 // repliers of one queue
	// maxAnswers may be under way to one host. Each of its senders waits for one, but
	// goes on when it has it, which may be before we have heard so: hence the factor.
	maxAnswers = 4 * maxXsrqSenders
	// answersAdded is how many answers a replier gets memory for when it needs some.
	answersAdded = 16
)

// servedQueue is a shared receive queue whose process answers what comes there.
type servedQueue struct {
	*process
	out *json.Encoder

	mu        sync.Mutex              // guards the fields below
	repliers  map[replierKey]*replier // by whom answers go to
	connected map[uint32]*replier     // by number of the initiator
	early     map[uint32]bool         // initiators that were lost before they were in connected
	stopper   *replier                // who has told us to post no more, nil: nobody
	held      []uint64                // slots not posted because of that
	line      servedLine
}

// replierKey is whom answers go to.
type replierKey struct {
	host    netip.Addr
	service uint64
}

// replier is how the queue answers to a domain of another host: an initiator, which reaches all queues
// there. It is closed when its target is gone: with the service, that is with the client.
//
// Answers are copied, so that a host that does not take them keeps no receive of
// ours; those of a host that has as many under way as it may are dropped.
type replier struct {
	key     replierKey
	mem     slots
	free    []int // slots of mem
	ini     *xrc.Initiator
	waiting []outgoing // answers that wait for ini
}

// outgoing is an answer in a slot of a replier.
type outgoing struct {
	slot, len int
	queue     uint32
}

// servedLine is the end of a queue.
type servedLine struct {
	Type     string `json:"type"` // served
	Index    int    `json:"index"`
	Messages uint64 `json:"messages"` // that came
	Answered uint64 `json:"answered"`
	Dropped  uint64 `json:"dropped"` // that were none, or could not be answered
}

func (l servedLine) String() string {
	return fmt.Sprintf("queue %d: %d messages, %d answers, %d dropped", l.Index, l.Messages, l.Answered, l.Dropped)
}

// runQueue is the process of a queue.
func runQueue(ctx context.Context, job *xsrqJob, out *json.Encoder) error {
	p, err := newProcess(ctx, job, maxRepliers*maxAnswers)
	if err != nil {
		return err
	}
	q := &servedQueue{process: p, out: out, repliers: make(map[replierKey]*replier), connected: make(map[uint32]*replier),
		early: make(map[uint32]bool), line: servedLine{Type: "served", Index: job.Index}}
	if _, err := p.Advertise(xrc.ServiceAttr{ID: job.Service, Domain: p.dom, SRQ: p.srq}); err != nil {
		return err
	}
	_ = out.Encode(xsrqReport{Number: p.srq.Num()})
	go p.lost(ctx, func(initiator uint32) {
		q.mu.Lock()
		r := q.connected[initiator]
		if r == nil { // connect has not returned
			q.early[initiator] = true
		}
		q.mu.Unlock()
		if r != nil {
			q.leave(ctx, r)
		}
	})
	var list [64]iwarp.Completion
	for {
		if err := q.cq.Wait(ctx); ctx.Err() != nil {
			break
		} else if err != nil {
			return err
		}
		q.mu.Lock()
		for _, c := range list[:q.cq.Poll(list[:])] {
			err = q.completedLocked(ctx, &c)
			if err != nil {
				break
			}
		}
		q.mu.Unlock()
		if err != nil {
			return err
		}
	}
	err = q.Close() // peers are told before the daemon ends
	q.mu.Lock()
	defer q.mu.Unlock()
	return errors.Join(out.Encode(xsrqReport{Served: &q.line}), err)
}

// completedLocked takes the completion of an answer or of a receive. Receives are posted again unless the queue is
// stopped.
func (q *servedQueue) completedLocked(ctx context.Context, c *iwarp.Completion) error {
	if c.Initiator != 0 {
		if c.Status == iwarp.Success {
			q.line.Answered++
		} else {
			q.line.Dropped++
		}
		if r := q.connected[c.Initiator]; r != nil {
			r.free = append(r.free, int(c.ID))
		}
		return nil
	}
	q.line.Messages++
	if c.Status != iwarp.Success || !q.answerLocked(ctx, q.received(c)) {
		q.line.Dropped++
	}
	if q.stopper != nil {
		q.held = append(q.held, c.ID)
		return nil
	}
	return q.post(c.ID)
}

// answerLocked answers a message, at once or when there is an initiator. It is false if it cannot.
func (q *servedQueue) answerLocked(ctx context.Context, b []byte) bool {
	h, ok := parseXsrq(b)
	if !ok || h.kind != xsrqPing && h.kind != xsrqStop {
		return false
	}
	key := replierKey{h.host, h.service}
	r := q.repliers[key]
	if r == nil {
		if len(q.repliers) == maxRepliers {
			return false
		}
		r = &replier{key: key, mem: slots{pd: q.pd, size: q.Size, each: answersAdded}}
		q.repliers[key] = r
		go q.connect(ctx, r)
	}
	if h.kind == xsrqStop && q.stopper == nil {
		q.stopper = r
	}
	if n := len(r.mem.regions) * answersAdded; len(r.free) == 0 && n < maxAnswers {
		if err := r.mem.add(); err != nil {
			return false
		}
		for i := range answersAdded {
			r.free = append(r.free, n+i)
		}
	}
	if len(r.free) == 0 {
		return false
	}
	a := outgoing{r.free[len(r.free)-1], len(b), h.answer}
	r.free = r.free[:len(r.free)-1]
	copy(r.mem.at(a.slot), b)
	makeAnswer(r.mem.at(a.slot))
	if r.ini == nil {
		r.waiting = append(r.waiting, a)
		return true
	}
	return r.send(a)
}

func (r *replier) send(a outgoing) bool {
	_, err := r.ini.PostSend(iwarp.WorkRequest{ID: uint64(a.slot), Flags: iwarp.Signaled, Queue: a.queue, SGE: []iwarp.SGE{r.mem.sge(a.slot, a.len)}})
	if err != nil {
		r.free = append(r.free, a.slot)
	}
	return err == nil
}

// connect connects a replier.
func (q *servedQueue) connect(ctx context.Context, r *replier) {
	step, cancel := context.WithTimeout(ctx, q.Timeout)
	defer cancel()
	ini, err := q.Connect(step, xrc.InitiatorAttr{PD: q.pd, CQ: q.cq, Local: q.Local, Remote: r.key.host, Service: r.key.service, MaxSend: maxAnswers})
	if err != nil {
		q.problem("answers to %v: %v", r.key.host, err)
		q.leave(ctx, r)
		return
	}
	q.mu.Lock()
	r.ini = ini
	q.connected[ini.Number()] = r
	for _, a := range r.waiting {
		if !r.send(a) {
			q.line.Dropped++
		}
	}
	r.waiting = nil
	early := q.early[ini.Number()]
	delete(q.early, ini.Number())
	q.mu.Unlock()
	if early {
		q.leave(ctx, r)
	}
}

// leave closes a replier. If it had stopped the queue, the queue goes on.
func (q *servedQueue) leave(ctx context.Context, r *replier) {
	q.mu.Lock()
	q.line.Dropped += uint64(len(r.waiting))
	delete(q.repliers, r.key)
	if r.ini != nil {
		delete(q.connected, r.ini.Number())
	}
	if q.stopper == r {
		q.stopper = nil
		for _, slot := range q.held {
			_ = q.post(slot) // there was room for it before
		}
		q.held = nil
	}
	q.mu.Unlock()
	if r.ini != nil {
		if err := r.ini.Close(ctx); err != nil && ctx.Err() == nil {
			q.problem("answers to %v: %v", r.key.host, err)
		}
	}
	r.mem.close()
}

// problem has the command print an error.
func (q *servedQueue) problem(format string, args ...any) {
	q.mu.Lock()
	defer q.mu.Unlock()
	_ = q.out.Encode(xsrqReport{Error: fmt.Sprintf(format, args...)})
}
