package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc"
)

// maxRepliers is how many repliers a queue has.
const maxRepliers = 8

// servedQueue is a shared receive queue whose process answers what comes there. A message is answered from the
// memory that it was received to, whose receive is posted again when the answer is done.
type servedQueue struct {
	*process
	out *json.Encoder

	repliers map[replierKey]*replier // repliers that have not been left
	numbers  map[uint32]*replier     // repliers that are connected, by number of the initiator
	answers  map[int]*replier        // by slot with an answer under way: who sends it
	news     chan *replier           // repliers that have connected, or could not
	stopper  *replier                // who has told us to post no more, nil: nobody
	held     []int                   // slots not posted because of that
	counts   messageCounts
}

// replierKey is whom answers go to.
type replierKey struct {
	host    netip.Addr
	service uint64
}

// replier is how the queue answers to a domain of another host: an initiator, which reaches all queues
// there. It is left when its target is gone: with the service, that is with the client.
type replier struct {
	replierKey
	ini     *xrc.Initiator      // nil until news
	err     error               // why there is none
	waiting []iwarp.WorkRequest // answers that wait for ini
}

// messageCounts counts the messages that came, those that were answered, and those that were none or could not be.
type messageCounts struct{ Messages, Answered, Dropped uint64 }

// runQueue is the process of a queue.
func runQueue(ctx context.Context, job *xsrqJob, domain *os.File, out *json.Encoder) error {
	p, err := newProcess(ctx, job, domain, job.Receives, maxRepliers*2*job.Receives) // of requests an initiator has a power of two
	if err != nil {
		return err
	}
	q := &servedQueue{process: p, out: out, repliers: make(map[replierKey]*replier), numbers: make(map[uint32]*replier),
		answers: make(map[int]*replier), news: make(chan *replier)}
	if _, err := p.Advertise(xrc.ServiceAttr{ID: job.Service, Domain: p.dom, SRQ: p.srq}); err != nil {
		return err
	}
	_ = out.Encode(xsrqReport{Queues: []uint32{p.srq.Num()}})
	for ctx.Err() == nil {
		select {
		case list, ok := <-p.done:
			for i := range list {
				if err := q.completed(ctx, &list[i]); err != nil {
					return err
				}
			}
			if !ok && ctx.Err() == nil {
				return errors.New("the daemon has ended")
			}
		case number := <-p.ended:
			q.leave(ctx, q.numbers[number])
		case r := <-q.news:
			q.changed(ctx, r)
		case <-ctx.Done():
		}
	}
	return errors.Join(q.Close(), out.Encode(xsrqReport{Served: &q.counts}))
}

// completed takes the completion of an answer or of a receive.
func (q *servedQueue) completed(ctx context.Context, c *iwarp.Completion) error {
	slot := int(c.ID)
	if c.Initiator == 0 {
		q.counts.Messages++
		if c.Status == iwarp.Success && q.answer(ctx, slot, int(c.Len)) {
			return nil
		}
		return q.again(slot, false)
	}
	r := q.answers[slot]
	if r == nil { // the replier has been closed
		return nil
	}
	delete(q.answers, slot)
	if c.Status != iwarp.Success && c.Status != iwarp.RemoteInvalidRD { // the latter is of one queue there
		q.leave(ctx, r)
	}
	return q.again(slot, c.Status == iwarp.Success)
}

// again posts a receive again unless the queue is stopped, and counts what has become of its message.
func (q *servedQueue) again(slot int, answered bool) error {
	if answered {
		q.counts.Answered++
	} else {
		q.counts.Dropped++
	}
	if q.stopper != nil {
		q.held = append(q.held, slot)
		return nil
	}
	return q.post(slot)
}

// answer answers a message, at once or when there is an initiator. It is false if it cannot.
func (q *servedQueue) answer(ctx context.Context, slot, n int) bool {
	b := q.slot(slot)[:n]
	h, ok := parseXsrq(b)
	if !ok || h.Kind != kindPing && h.Kind != kindStop || h.Answer == 0 {
		return false
	}
	key := replierKey{netip.AddrFrom16(h.Host).Unmap(), h.Service}
	r := q.repliers[key]
	if r == nil {
		if len(q.repliers) == maxRepliers {
			return false
		}
		r = &replier{replierKey: key}
		q.repliers[key] = r
		go q.connect(ctx, key)
	}
	if h.Kind == kindStop && q.stopper == nil {
		q.stopper = r
	}
	makeAnswer(b)
	w := iwarp.WorkRequest{ID: uint64(slot), Flags: iwarp.Signaled, Queue: h.Answer, SGE: q.sge(slot, n)}
	q.answers[slot] = r
	if r.ini == nil {
		r.waiting = append(r.waiting, w)
	} else if _, err := r.ini.PostSend(w); err != nil {
		delete(q.answers, slot)
		return false
	}
	return true
}

// connect connects a replier.
func (q *servedQueue) connect(ctx context.Context, key replierKey) {
	step, cancel := q.step(ctx)
	defer cancel()
	n := replier{replierKey: key}
	n.ini, n.err = q.Connect(step, xrc.InitiatorAttr{PD: q.pd, CQ: q.cq, Remote: key.host, Service: key.service, MaxSend: q.Receives})
	select {
	case q.news <- &n:
	case <-ctx.Done():
	}
}

// changed follows the news of a replier.
func (q *servedQueue) changed(ctx context.Context, n *replier) {
	r := q.repliers[n.replierKey]
	if n.err != nil {
		_ = q.out.Encode(xsrqReport{Error: fmt.Sprintf("answers to %v: %v", n.host, n.err), Goes: true})
		q.leave(ctx, r)
		return
	}
	r.ini = n.ini
	q.numbers[r.ini.Number()] = r
	for _, w := range r.waiting {
		if _, err := r.ini.PostSend(w); err != nil {
			delete(q.answers, int(w.ID))
			_ = q.again(int(w.ID), false)
		}
	}
	r.waiting = nil
}

// leave closes a replier that is not connected, or whose target has gone. If it had stopped the queue, the queue goes on.
func (q *servedQueue) leave(ctx context.Context, r *replier) {
	if r == nil || q.repliers[r.replierKey] != r {
		return
	}
	delete(q.repliers, r.replierKey)
	if r.ini != nil {
		delete(q.numbers, r.ini.Number())
		_ = r.ini.Close(ctx)
	}
	if q.stopper == r {
		q.stopper = nil
		for _, slot := range q.held {
			_ = q.post(slot) // there was room for it before
		}
		q.held = nil
	}
	for slot, of := range q.answers {
		if of == r {
			delete(q.answers, slot)
			_ = q.again(slot, false)
		}
	}
}
