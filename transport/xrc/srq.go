package xrc

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/rds-go/rds/transport/iwarp"
	objects "github.com/rds-go/rds/xrc"
)

// SRQAttr describes a shared receive queue. All but Limit is required.
type SRQAttr struct {
	Domain *objects.Domain
	PD     *objects.PD
	CQ     *objects.CQ
	MaxWR  int // receives
	MaxSGE int // pieces of memory of each, to iwarp.MaxSGE
	Limit  int // see objects.SRQ.Modify
}

// CreateSRQ makes a shared receive queue that peers can send to. It is the
// session's as if it had made it by objects.Session.CreateSRQ; it receives without the
// daemon having a part in it.
func (t *Transport) CreateSRQ(s *objects.Session, a SRQAttr) (*objects.SRQ, error) {
	if a.PD == nil || a.CQ == nil {
		return nil, ErrForeign
	}
	if a.MaxSGE > iwarp.MaxSGE {
		return nil, ErrRequest
	}
	q := &queue{t: t, pd: a.PD}
	x, err := s.CreateSRQ(objects.SRQAttr{Type: objects.SRQXRC, Domain: a.Domain, CQ: a.CQ, PD: a.PD, MaxWR: a.MaxWR, MaxSGE: a.MaxSGE, Limit: a.Limit, Queue: q})
	if err != nil {
		return nil, err
	}
	number, _ := x.Number()
	q.number.Store(number)
	srq, err := t.pd.CreateSRQ(iwarp.SRQConfig{Number: number, CQ: a.CQ.CQ, MaxReceive: a.MaxWR, Limit: a.Limit, OnLimit: func(*iwarp.SRQ) { q.reached() }})
	if err != nil {
		_ = x.Close(context.Background())
		return nil, err
	}
	q.srq.Store(srq)
	return x, nil
}

// queue is xrc's idea of a shared receive queue of iWARP. There is none for an
// instant after the number has become known.
type queue struct {
	t      *Transport
	pd     *objects.PD
	number atomic.Uint32
	srq    atomic.Pointer[iwarp.SRQ]
	// reached reports that the limit is; constant from before the number is known.
	reached func()
}

// PostReceive refuses keys that are not of the queue's PD (ErrForeign).
func (q *queue) PostReceive(list []iwarp.ReceiveRequest) (int, error) {
	var foreign error
	for i := range list {
		for _, g := range list[i].SGE {
			if !q.pd.Owns(g.Key) {
				list, foreign = list[:i], ErrForeign
				break
			}
		}
		if foreign != nil {
			break
		}
	}
	n, err := q.srq.Load().PostReceive(list...)
	switch {
	case errors.Is(err, iwarp.ErrQueueFull):
		err = objects.ErrFull
	case errors.Is(err, iwarp.ErrClosed):
		err = objects.ErrClosed
	case err == nil:
		err = foreign
	}
	return n, err
}

// Pop is never right: messages take receives where they arrive.
func (q *queue) Pop(*iwarp.ReceiveRequest) (int, bool) { return 0, false }

// Arm makes the queue an objects.Limiter.
func (q *queue) Arm(limit int, reached func()) {
	if srq := q.srq.Load(); srq != nil {
		srq.Arm(limit)
	} else {
		q.reached = reached // the first time, and the limit is that of SRQAttr
	}
}

// Len is how many receives are posted.
func (q *queue) Len() int {
	if srq := q.srq.Load(); srq != nil {
		return srq.Posted()
	}
	return 0
}

// Close returns when no memory of the queue is touched any more. Peers hear that it
// is no more.
func (q *queue) Close() {
	srq := q.srq.Load()
	if srq == nil {
		return
	}
	_ = srq.Close()
	for _, p := range q.t.allPeers() {
		if m := p.talking(); m != nil {
			m.control.close(q.number.Load())
		}
	}
}
