package objects

import (
	"context"
	"sync/atomic"

	"github.com/rds-go/rds/transport/iwarp"
)

// SRQAttr describes a shared receive queue.
type SRQAttr struct {
	Domain *Domain // required
	PD     *PD     // required
	CQ     *CQ     // required without Sink, else refused
	// Sink is for a queue to which nobody posts receives: what arrives goes to where the
	// connection that brings it has a place for it. MaxWR and Limit are 0.
	Sink  bool
	MaxWR int // receives: 1 to Config.MaxWR
	Limit int // see SRQ.Modify; at most MaxWR
}

// SRQ is a shared receive queue of a session. Peers name it by number in what
// they send to any target of its domain.
type SRQ struct {
	*iwarp.SRQ
	session *Session
	ref     Ref
	domain  *Domain
	xrcd    *xrcd // compared by Resolve
	pd      *PD
	cq      *CQ
	failed  atomic.Bool

	// Under Device.mu.
	maxWR int
	gone  bool
}

// CreateSRQ makes a shared receive queue and publishes its number.
func (s *Session) CreateSRQ(a SRQAttr) (*SRQ, error) {
	d := s.dev
	d.mu.Lock()
	defer d.unlock()
	if err := s.liveLocked(); err != nil {
		return nil, err
	}
	if err := a.check(&d.config); err != nil {
		return nil, err
	}
	switch {
	case !a.PD.usableLocked(s), a.CQ != nil && !a.CQ.usableLocked(s):
		return nil, ErrForeign
	}
	x, err := s.domainLocked(a.Domain)
	if err != nil {
		return nil, err
	}
	if s.used.SRQs >= s.limits.SRQs || a.MaxWR > s.limits.Receives-s.used.Receives {
		return nil, ErrLimit
	}
	from := &d.numbers[KindSRQ]
	if a.Sink {
		from = &d.sinks
	}
	ref, err := d.nameLocked(KindSRQ, from)
	if err != nil {
		return nil, err
	}
	q := &SRQ{session: s, ref: ref, domain: a.Domain, xrcd: x, pd: a.PD, cq: a.CQ, maxWR: a.MaxWR}
	c := iwarp.SRQConfig{Number: ref.Number, Sink: a.Sink}
	if !a.Sink {
		c.CQ, c.MaxReceive, c.Limit, c.OnLimit = a.CQ.CQ, a.MaxWR, a.Limit, q.reached
	}
	if q.SRQ, err = a.PD.CreateSRQ(c); err != nil {
		d.freeLocked(ref)
		return nil, err
	}
	s.used.SRQs++
	s.used.Receives += a.MaxWR
	s.addLocked(q)
	q.pd.refs++
	q.domain.refs++
	q.xrcd.refs++
	if q.cq != nil {
		q.cq.useLocked(q)
	}
	d.queues[q] = struct{}{}
	d.srqs.set(ref.Number, q)
	return q, nil
}

// check names the field that is wrong.
func (a *SRQAttr) check(c *Config) error {
	least := 1
	if a.Sink {
		least = 0
	}
	switch {
	case a.Sink && (a.CQ != nil || a.MaxWR+a.Limit != 0):
		return fieldError("SRQAttr.Sink", "with receives or a completion queue")
	case a.MaxWR < least || a.MaxWR > c.MaxWR:
		return fieldError("SRQAttr.MaxWR", a.MaxWR)
	case a.Limit < 0 || a.Limit > a.MaxWR:
		return fieldError("SRQAttr.Limit", a.Limit)
	case a.Domain == nil:
		return fieldError("SRQAttr.Domain", a.Domain)
	case a.Sink == (a.CQ != nil):
		return fieldError("SRQAttr.CQ", a.CQ)
	}
	return nil
}

// Ref names the queue in events.
func (q *SRQ) Ref() Ref { return q.ref }

// SRQMask says which fields Modify changes; the values are those of
// ibv_srq_attr_mask.
type SRQMask uint32

// The fields.
const (
	SRQMaxWR SRQMask = 1 << 0
	SRQLimit SRQMask = 1 << 1
)

// Modify resizes the queue, or arms the limit: once, when a message leaves fewer
// receives than limit, the session hears EventSRQLimit. Armed when there are fewer
// already, that is at the next message.
func (q *SRQ) Modify(m SRQMask, maxWR, limit int) error {
	d, s := q.session.dev, q.session
	d.mu.Lock()
	defer d.unlock()
	if q.gone {
		return ErrForeign
	}
	if m&^(SRQMaxWR|SRQLimit) != 0 {
		return ErrAttribute // not ErrMask, because ibv_modify_srq has one errno for both
	}
	if m&SRQMaxWR == 0 {
		maxWR = q.maxWR
	}
	if m&SRQLimit == 0 {
		limit = q.Limit()
	}
	if maxWR < 1 || maxWR > d.config.MaxWR || limit < 0 || limit > maxWR {
		return ErrAttribute
	}
	if maxWR-q.maxWR > s.limits.Receives-s.used.Receives {
		return ErrLimit
	}
	if m&SRQMaxWR != 0 {
		if err := q.Resize(maxWR); err != nil {
			return err
		}
		s.used.Receives += maxWR - q.maxWR
		q.maxWR = maxWR
	}
	if m&SRQLimit != 0 {
		q.Arm(limit)
	}
	return nil
}

// reached follows a message that has left fewer receives than the limit.
func (q *SRQ) reached(*iwarp.SRQ) {
	q.session.events.push(Event{Kind: EventSRQLimit, Object: q.ref})
}

// SRQInfo is what a query of a shared receive queue returns.
type SRQInfo struct {
	MaxWR  int
	Limit  int // 0 once it was reached
	Posted int
}

// Query tells the queue's size and what is in it.
func (q *SRQ) Query() SRQInfo {
	q.session.dev.mu.Lock()
	defer q.session.dev.unlock()
	return SRQInfo{MaxWR: q.maxWR, Limit: q.Limit(), Posted: q.Posted()}
}

// Fail is how the transport reports that the queue's memory is of no use, or what it
// completes in is lost: the session hears EventSRQError, once.
func (q *SRQ) Fail() {
	if !q.failed.Swap(true) {
		q.session.events.push(Event{Kind: EventSRQError, Object: q.ref})
	}
}

func (q *SRQ) overrunLocked() { q.Fail() }

// Close destroys the queue. Targets that it is behind do not keep it. What is
// posted vanishes without completions, messages that come later find no queue of
// that number, and nothing of the session's memory is touched after the return.
//
// It waits for the session's events of the queue to be acknowledged first.
func (q *SRQ) Close(ctx context.Context) error { return q.end(ctx) }

func (q *SRQ) end(ctx context.Context) error {
	return q.session.destroy(ctx, func() (Ref, error) {
		if q.gone {
			return Ref{}, ErrForeign
		}
		return q.ref, nil
	}, q.abandonLocked)
}

func (q *SRQ) abandonLocked() {
	q.gone = true
	s, d := q.session, q.session.dev
	d.srqs.set(q.ref.Number, nil)
	delete(d.queues, q)
	s.used.SRQs--
	s.used.Receives -= q.maxWR
	delete(s.objects, q)
	q.pd.refs--
	q.domain.refs--
	if q.cq != nil {
		q.cq.unuseLocked(q)
	}
	q.xrcd.dropLocked()
	d.freeLocked(q.ref)
	d.later(func() {
		_ = q.SRQ.Close()
		s.events.forget(q.ref) // events that the last messages caused
		if told := d.config.QueueGone; told != nil && !HasSink(q.ref.Number) {
			told(q.ref.Number)
		}
	})
}

func (q *SRQ) String() string { return q.ref.String() }
