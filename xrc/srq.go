package xrc

import (
	"sync/atomic"

	"github.com/rds-go/rds/internal/invariants"
	"github.com/rds-go/rds/transport/iwarp"
)

// SRQType is that of a shared receive queue, with the values of ibv_srq_type.
type SRQType uint8

// The types.
const (
	SRQBasic SRQType = 0 // queue for queue pairs of one session; has no number
	SRQXRC   SRQType = 1
)

// SRQAttr describes a shared receive queue.
type SRQAttr struct {
	Type   SRQType
	Domain *Domain // required by SRQXRC, refused by SRQBasic
	CQ     *CQ     // required by SRQXRC without Sink, else refused
	// Sink is for a queue of SRQXRC to which nobody posts receives: what arrives goes to
	// where the connection that brings it has a place for it. MaxWR, MaxSGE and Limit are
	// 0, Take gives nothing, and Queue, if there is one, hears of the end by its Close.
	Sink   bool
	PD     *PD   // required
	MaxWR  int   // receives: 1 to Config.MaxWR
	MaxSGE int   // pieces of memory of each: 1 to Config.MaxSGE
	Limit  int   // see SRQ.Modify; at most MaxWR
	Queue  Queue // queue with room for MaxWR; nil makes a NewRing
}

// SRQ is a shared receive queue of a session. Peers name it by number in what
// they send to any target of its domain.
type SRQ struct {
	session *Session
	ref     Ref
	kind    SRQType
	domain  *Domain
	xrcd    *xrcd // compared by Resolve
	pd      *PD
	cq      *CQ
	maxSGE  int
	queue   Queue

	limit  atomic.Int32 // 0: not armed
	failed atomic.Bool
	// holds counts messages that are filling memory of the queue; closing is
	// added when it is destroyed.
	holds  atomic.Int64
	idle   chan struct{} // cap 1: has a token when the queue is closing and has no holds
	orphan atomic.Bool   // the queue's session is gone; the last Done finishes the queue

	// Under Device.mu.
	maxWR   int
	users   int  // queue pairs that use a basic queue
	closing bool // no message gets to the queue any more
	gone    bool
}

const closing = 1 << 62

// CreateSRQ makes a shared receive queue and publishes its number.
func (s *Session) CreateSRQ(a SRQAttr) (*SRQ, error) {
	d := s.dev
	d.mu.Lock()
	defer d.unlock()
	if err := s.liveLocked(); err != nil {
		return nil, err
	}
	c := &d.config
	if err := a.check(c); err != nil {
		return nil, err
	}
	switch {
	case !a.PD.usableLocked(s), a.CQ != nil && !a.CQ.usableLocked(s):
		return nil, ErrForeign
	}
	q := &SRQ{session: s, kind: a.Type, domain: a.Domain, pd: a.PD, cq: a.CQ, maxSGE: a.MaxSGE, maxWR: a.MaxWR, queue: a.Queue, idle: make(chan struct{}, 1)}
	if a.Domain != nil {
		x, err := s.domainLocked(a.Domain)
		if err != nil {
			return nil, err
		}
		q.xrcd = x
	}
	if s.used.SRQs >= s.limits.SRQs || a.MaxWR > s.limits.Receives-s.used.Receives {
		return nil, ErrLimit
	}
	var err error
	from := &d.numbers[KindSRQ]
	if a.Sink {
		from = &d.sinks
	}
	if q.ref, err = d.nameLocked(KindSRQ, from); err != nil {
		return nil, err
	}
	switch {
	case q.queue != nil:
	case a.Sink:
		q.queue = noReceives{}
	default:
		q.queue = NewRing(a.MaxWR, a.MaxSGE)
	}
	q.armLocked(a.Limit)
	s.used.SRQs++
	s.used.Receives += a.MaxWR
	s.addLocked(q)
	q.pd.refs++
	d.queues[q] = struct{}{}
	if q.kind == SRQXRC {
		q.domain.refs++
		q.xrcd.refs++
		if q.cq != nil {
			q.cq.useLocked(q)
		}
		d.srqs.set(q.ref.Number, q)
	}
	return q, nil
}

// check names the field that is wrong.
func (a *SRQAttr) check(c *Config) error {
	least := 1
	if a.Sink {
		least = 0
	}
	switch {
	case a.Type > SRQXRC:
		return fieldError("SRQAttr.Type", a.Type)
	case a.Sink && (a.Type != SRQXRC || a.CQ != nil || a.MaxWR+a.MaxSGE+a.Limit != 0):
		return fieldError("SRQAttr.Sink", "with receives or a completion queue")
	case a.MaxWR < least || a.MaxWR > c.MaxWR:
		return fieldError("SRQAttr.MaxWR", a.MaxWR)
	case a.MaxSGE < least || a.MaxSGE > c.MaxSGE:
		return fieldError("SRQAttr.MaxSGE", a.MaxSGE)
	case a.Limit < 0 || a.Limit > a.MaxWR:
		return fieldError("SRQAttr.Limit", a.Limit)
	case (a.Type == SRQXRC) != (a.Domain != nil):
		return fieldError("SRQAttr.Domain", a.Domain)
	case (a.Type == SRQXRC && !a.Sink) != (a.CQ != nil):
		return fieldError("SRQAttr.CQ", a.CQ)
	}
	return nil
}

// noReceives is the Queue of a shared receive queue with a sink.
type noReceives struct{}

func (noReceives) PostReceive([]iwarp.ReceiveRequest) (int, error) { return 0, ErrAttribute }
func (noReceives) Pop(*iwarp.ReceiveRequest) (int, bool)           { return 0, false }
func (noReceives) Len() int                                        { return 0 }
func (noReceives) Close()                                          {}

// Number is what peers name the queue by (ibv_get_srq_num); ErrNotXRC of a basic
// queue.
func (q *SRQ) Number() (uint32, error) {
	if q.kind != SRQXRC {
		return 0, ErrNotXRC
	}
	return q.ref.Number, nil
}

// Ref names the queue in events.
func (q *SRQ) Ref() Ref { return q.ref }

// CQ is where receives complete.
func (q *SRQ) CQ() *CQ { return q.cq }

// Queue is the queue that it was made with.
func (q *SRQ) Queue() Queue { return q.queue }

// PostReceive posts receives in order and returns how many it took; the error is
// about the first that it did not take. Keys are checked when they are used.
func (q *SRQ) PostReceive(list ...iwarp.ReceiveRequest) (int, error) {
	for i := range list {
		if len(list[i].SGE) > q.maxSGE {
			n, err := q.queue.PostReceive(list[:i])
			if err == nil {
				err = ErrAttribute
			}
			return n, err
		}
	}
	return q.queue.PostReceive(list)
}

// Take gives a message the oldest receive: ErrEmpty if there is none,
// ErrUnknownSRQ if the queue is destroyed. Done follows when nothing touches the
// receive's memory any more and its completion is in the CQ; the queue is not
// destroyed before. It allocates nothing if into.SGE has room.
func (q *SRQ) Take(into *iwarp.ReceiveRequest) error {
	if q.holds.Add(1) > closing {
		q.Done()
		return ErrUnknownSRQ
	}
	if q.failed.Load() {
		q.Done()
		return ErrEmpty
	}
	left, ok := q.queue.Pop(into)
	if !ok {
		q.Done()
		return ErrEmpty
	}
	if l := q.limit.Load(); l > 0 && left < int(l) && q.limit.CompareAndSwap(l, 0) {
		q.session.events.push(Event{Kind: EventSRQLimit, Object: q.ref})
	}
	return nil
}

// Done ends what Take began.
func (q *SRQ) Done() {
	switch n := q.holds.Add(-1); {
	case invariants.Enabled && (n < 0 || n == closing-1):
		panic("xrc: SRQ.Done without Take")
	case n != closing:
		return
	}
	q.wakeCloser()
	if q.orphan.Load() {
		d := q.session.dev
		d.mu.Lock()
		q.finishLocked()
		d.unlock()
	}
}

func (q *SRQ) wakeCloser() {
	select {
	case q.idle <- struct{}{}:
	default:
	}
}

// SRQMask says which fields Modify changes; the values are those of
// ibv_srq_attr_mask.
type SRQMask uint32

// The fields.
const (
	SRQMaxWR SRQMask = 1 << 0
	SRQLimit SRQMask = 1 << 1
)

// Modify resizes the queue, if its Queue is a Resizer, or arms the limit: once,
// when a message leaves fewer receives than limit, the session hears
// EventSRQLimit. Armed when there are fewer already, that is at the next message.
func (q *SRQ) Modify(m SRQMask, maxWR, limit int) error {
	d, s := q.session.dev, q.session
	d.mu.Lock()
	defer d.unlock()
	if q.closing {
		return ErrForeign
	}
	if m&^(SRQMaxWR|SRQLimit) != 0 {
		return ErrAttribute // not ErrMask, because ibv_modify_srq has one errno for both
	}
	if m&SRQMaxWR == 0 {
		maxWR = q.maxWR
	}
	if m&SRQLimit == 0 {
		limit = int(q.limit.Load())
	}
	if maxWR < 1 || maxWR > d.config.MaxWR || limit < 0 || limit > maxWR {
		return ErrAttribute
	}
	if maxWR-q.maxWR > s.limits.Receives-s.used.Receives {
		return ErrLimit
	}
	if m&SRQMaxWR != 0 {
		r, ok := q.queue.(Resizer)
		if !ok {
			return ErrAttribute
		}
		if err := r.Resize(maxWR); err != nil {
			return err
		}
		s.used.Receives += maxWR - q.maxWR
		q.maxWR = maxWR
	}
	if m&SRQLimit != 0 {
		q.armLocked(limit)
	}
	return nil
}

func (q *SRQ) armLocked(limit int) {
	q.limit.Store(int32(limit))
	if l, ok := q.queue.(Limiter); ok {
		l.Arm(limit, q.reached)
	}
}

// reached is how a Limiter tells that it has fewer receives than the limit.
func (q *SRQ) reached() {
	if q.limit.Swap(0) > 0 {
		q.session.events.push(Event{Kind: EventSRQLimit, Object: q.ref})
	}
}

// SRQInfo is what a query of a shared receive queue returns.
type SRQInfo struct {
	MaxWR, MaxSGE int
	Limit         int // 0 once it was reached
	Posted        int
}

// Query tells the queue's sizes and what is in it.
func (q *SRQ) Query() SRQInfo {
	q.session.dev.mu.Lock()
	defer q.session.dev.unlock()
	return SRQInfo{MaxWR: q.maxWR, MaxSGE: q.maxSGE, Limit: int(q.limit.Load()), Posted: q.queue.Len()}
}

// Fail is how the transport reports that the queue's memory is of no use, or
// what it completes in is lost. The queue then gives nothing, as if it were
// empty; the session hears EventSRQError.
func (q *SRQ) Fail() {
	if !q.failed.Swap(true) {
		q.session.events.push(Event{Kind: EventSRQError, Object: q.ref})
	}
}

func (q *SRQ) overrunLocked() { q.Fail() }
