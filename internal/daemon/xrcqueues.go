package daemon

import (
	"errors"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/internal/work"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/transport/xrc"
	"github.com/rds-go/rds/xrc/objects"
)

// workBatch is how many records go to an object in one call.
const workBatch = 64

// xrcSRQ is a shared receive queue of an application.
type xrcSRQ struct {
	*objects.SRQ
	cq    *xrcCQ
	taken int // receives taken that have not completed; guarded by xrcCQ.mu

	mu   lockorder.Mutex[xrcSRQ] // held while receives are taken; guards the fields below
	ring *ipc.Queue
	over bool
}

// batch is what a turn copies records to.
type batch struct {
	req      [workBatch]work.Request
	receives [workBatch]iwarp.ReceiveRequest
	requests [workBatch]iwarp.WorkRequest
}

// takeRecords posts receives.
func (q *xrcSRQ) takeRecords(b *batch, limit int) (n int, more bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.over {
		return 0, false, nil
	}
	q.ring.Asked.Clear()
	for {
		ready, err := q.ring.Ready(1)
		if err != nil || ready == 0 {
			return n, false, err
		}
		if n >= limit {
			return n, true, nil
		}
		k, err := q.cq.promise(q, min(ready, workBatch, limit-n))
		if err != nil || k == 0 {
			return n, false, err
		}
		for i := range k {
			r := &b.req[i]
			if !r.Load(q.ring.Record(i)) || r.Op != iwarp.OpReceive {
				return n, false, errViolation
			}
			b.receives[i] = iwarp.ReceiveRequest{ID: r.ID, SGE: r.SGE}
		}
		done, err := q.PostReceive(b.receives[:k]...)
		q.cq.unpromise(q, k-done)
		switch {
		case errors.Is(err, iwarp.ErrClosed):
			return n, false, nil
		case errors.Is(err, iwarp.ErrForeign): // the memory is no region of the queue's domain
			q.cq.deliver([]iwarp.Completion{{ID: b.receives[done].ID, Op: iwarp.OpReceive, Status: iwarp.LocalProtection, Initiator: noInitiator}})
			done++
		case err != nil: // more than the queue has room for
			return n, false, errViolation
		}
		q.ring.Advance(done)
		n += done
	}
}

// noInitiator marks a completion that nobody was promised room for.
const noInitiator = 1<<32 - 1

// close has nothing more taken.
func (q *xrcSRQ) close() {
	q.mu.Lock()
	q.over = true
	q.mu.Unlock()
}

// xrcChannel is an initiator of an application, and its connection.
type xrcChannel struct {
	*xrc.Channel
	cq      *xrcCQ
	maxSend int

	mu   lockorder.Mutex[xrcChannel] // held while requests are taken; guards the fields below
	ring *ipc.Queue
	over bool
}

// takeRecords posts requests. A group, a message and the Writes that it builds on, was put in one go.
func (ch *xrcChannel) takeRecords(b *batch, limit int) (n int, more bool, err error) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.over {
		return 0, false, nil
	}
	ch.ring.Asked.Clear()
	for {
		ready, err := ch.ring.Ready(workBatch)
		if err != nil || ready == 0 {
			return n, false, err
		}
		if n >= limit {
			return n, true, nil
		}
		k := min(ready, workBatch)
		for i := range k {
			r := &b.req[i]
			if !r.Load(ch.ring.Record(i)) || r.Op == iwarp.OpReceive {
				return n, false, errViolation
			}
			b.requests[i] = r.WorkRequest
		}
		if k < ready {
			k -= unfinished(b.requests[:k])
		}
		done, err := ch.PostSend(b.requests[:k]...)
		switch {
		case err == nil:
		case errors.Is(err, xrc.ErrFull): // more than it may have outstanding
			return n, false, errViolation
		case errors.Is(err, xrc.ErrClosed):
			return n, false, nil
		default: // a request that no channel does, which the application has checked, or memory that is no region any more
			bad := &b.requests[done]
			status := iwarp.LocalQPError
			if errors.Is(err, iwarp.ErrForeign) {
				status = iwarp.LocalProtection
			}
			ch.cq.deliver([]iwarp.Completion{{ID: bad.ID, Op: bad.Op, Status: status, Initiator: ch.Ref().Number}})
			done++
		}
		ch.ring.Advance(done)
		n += done
	}
}

// unfinished is how many Writes at the end of list, but for the first request, a message behind them may build on.
func unfinished(list []iwarp.WorkRequest) (n int) {
	for n < xrc.MaxGroup && n < len(list)-1 && list[len(list)-1-n].Op == iwarp.OpWrite {
		n++
	}
	return n
}

// close has nothing more taken.
func (ch *xrcChannel) close() {
	ch.mu.Lock()
	ch.over = true
	ch.mu.Unlock()
}
