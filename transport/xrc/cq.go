package xrc

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/rds-go/rds/internal/fifo"
	"github.com/rds-go/rds/transport/iwarp"
	objects "github.com/rds-go/rds/xrc"
)

// CQ is a completion queue of a session: of its channels and its shared receive
// queues. Its methods may be called concurrently; each completion goes to one
// caller.
type CQ struct {
	t   *Transport
	xrc *objects.CQ
	dev *iwarp.CQ // completion queue of the receive queues

	mu      sync.Mutex
	limit   int                              // most completions in ring
	ring    fifo.Queue[iwarp.Completion]     // guarded by mu; completions that do not wait in dev
	overrun bool                             // guarded by mu
	closed  bool                             // guarded by mu
	waiting map[*context.CancelFunc]struct{} // guarded by mu
	list    [64]iwarp.Completion             // guarded by mu; scratch
	qp      *iwarp.QP                        // guarded by mu; the queue pair seen last
	mux     *mux                             // guarded by mu; the connection of qp
}

// CreateCQ makes a completion queue: room for n completions of each kind, those of
// sends and those of receives. Size it for all that can complete at once.
func (t *Transport) CreateCQ(s *objects.Session, n int) (*CQ, error) {
	dev, err := t.dev.CreateCQ(n)
	if err != nil {
		return nil, err
	}
	c := &CQ{t: t, dev: dev, limit: n, waiting: make(map[*context.CancelFunc]struct{})}
	if c.xrc, err = s.CreateCQ((*completions)(c)); err != nil {
		_ = dev.Close()
		return nil, err
	}
	t.mu.Lock()
	t.cqs[c] = struct{}{}
	t.mu.Unlock()
	return c, nil
}

// Close destroys the queue: objects.ErrBusy while something completes there.
func (c *CQ) Close(ctx context.Context) error { return c.xrc.Close(ctx) }

// Poll takes up to len(dst) completions and returns their number.
func (c *CQ) Poll(dst []iwarp.Completion) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := copy(dst, c.ring.All())
	c.ring.Drop(n)
	for n < len(dst) {
		k := c.dev.Poll(dst[n:])
		if k == 0 {
			break
		}
		for i := range dst[n : n+k] {
			c.noteLocked(&dst[n+i])
		}
		n += k
	}
	return n
}

// noteLocked notes a message that has come. All that complete are noted before their connection
// is asked for what it brought.
func (c *CQ) noteLocked(e *iwarp.Completion) {
	if e.QP != c.qp {
		c.qp, c.mux = e.QP, c.t.muxOf(e.QP)
	}
	if c.mux != nil && e.Status == iwarp.Success {
		c.mux.ledger.note(e.Queue, e.Serial)
	}
}

// collect notes all messages that have come, for the connection that has ended.
func (c *CQ) collect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := c.dev.Poll(c.list[:]); n > 0; n = c.dev.Poll(c.list[:]) {
		for i := range c.list[:n] {
			c.noteLocked(&c.list[i])
		}
		c.ring.Push(c.list[:n]...)
	}
	c.qp, c.mux = nil, nil
	c.wakeLocked() // Wait looks elsewhere for these completions
}

// push adds completions of channels.
func (c *CQ) push(list []iwarp.Completion) {
	if len(list) == 0 {
		return
	}
	c.mu.Lock()
	lost := !c.overrun && !c.closed && c.ring.Len()+len(list) > 2*c.limit
	c.overrun = c.overrun || lost
	if !c.overrun && !c.closed {
		c.ring.Push(list...)
	}
	c.wakeLocked()
	c.mu.Unlock()
	if lost {
		c.xrc.Overrun()
	}
}

func (c *CQ) wakeLocked() {
	for cancel := range c.waiting {
		(*cancel)()
	}
}

// Wait returns when there is something to Poll: nil, or the reason why nothing will
// come any more, or ctx's error.
func (c *CQ) Wait(ctx context.Context) error {
	for {
		inner, cancel := context.WithCancel(ctx)
		c.mu.Lock()
		n, overrun, closed := c.ring.Len(), c.overrun, c.closed
		if n == 0 && !overrun && !closed {
			c.waiting[&cancel] = struct{}{}
		}
		c.mu.Unlock()
		var err error
		switch {
		case n > 0:
		case overrun:
			err = ErrOverrun
		case closed:
			err = ErrClosed
		default:
			err = c.dev.Wait(inner)
			c.mu.Lock()
			delete(c.waiting, &cancel)
			c.mu.Unlock()
			if errors.Is(err, context.Canceled) && ctx.Err() == nil {
				cancel()
				continue // there may be more completions
			}
			if errors.Is(err, iwarp.ErrOverrun) {
				c.xrc.Overrun()
				err = ErrOverrun
			}
		}
		cancel()
		return err
	}
}

// completions is a CQ in its role of objects.Completions.
type completions CQ

// Purge is also the end of an initiator.
func (x *completions) Purge(r objects.Ref) {
	c := (*CQ)(x)
	c.t.mu.Lock()
	ch := c.t.inis[r.Number]
	delete(c.t.inis, r.Number)
	c.t.mu.Unlock()
	if ch != nil {
		ch.destroy()
	}
	c.mu.Lock()
	c.ring.Keep(len(slices.DeleteFunc(c.ring.All(), func(e iwarp.Completion) bool { return e.Initiator == r.Number })))
	c.mu.Unlock()
}

func (x *completions) Close() {
	c := (*CQ)(x)
	c.collect() // notes messages that have come, for peers that ask
	c.mu.Lock()
	c.closed, c.ring = true, fifo.Queue[iwarp.Completion]{}
	c.wakeLocked()
	c.mu.Unlock()
	_ = c.dev.Close()
	c.t.mu.Lock()
	delete(c.t.cqs, c)
	c.t.mu.Unlock()
}

func (t *Transport) allCQs() []*CQ {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]*CQ, 0, len(t.cqs))
	for c := range t.cqs {
		list = append(list, c)
	}
	return list
}
