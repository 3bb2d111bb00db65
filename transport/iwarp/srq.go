package iwarp

import (
	"fmt"
	"math"
	"sync/atomic"
	"syscall"

	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// SRQConfig sets up a shared receive queue.
type SRQConfig struct {
	Number     uint32 // number by which peers name the queue: 1 to 0xFFFFFE, unique in its Queues
	CQ         *CQ    // required without Sink: where messages complete
	MaxReceive int    // posted receive requests. 0 means 128
	// Sink has messages go to the SharedParams.Sink of the connection that brings them.
	// Such a queue has a Number and nothing else: no memory is posted to it.
	Sink bool
	// Limit, if not 0, has OnLimit called once when fewer requests are posted;
	// Arm sets it again (IBV_EVENT_SRQ_LIMIT_REACHED). OnLimit is called by an
	// event loop and must not block.
	Limit   int
	OnLimit func(*SRQ)
}

// SRQ is a receive queue that the messages of many connections share. A peer
// names it by number in each message, so that one connection serves every queue
// of a host, and one that runs dry stops nobody else (the XRC SRQ of verbs).
type SRQ struct {
	pd      *PD
	cq      *CQ
	num     xctl.SRQN
	rq      receiveQueue
	onLimit func(*SRQ)
	sink    bool // messages go to the Sink of their connection; cq, rq and onLimit are not used
	closed  atomic.Bool
	// using is held for reading while a byte of the queue's memory is written,
	// so that Close waits for that and not for the rest of a message.
	using lockorder.RWMutex[srqUsing]

	mu      lockorder.Mutex[srqMu]
	limit   int                  // guarded by mu; 0: not armed
	starved map[*stream]struct{} // guarded by mu: connections that met an empty queue
}

// CreateSRQ makes a shared receive queue. The keys of its receive requests are
// of this domain.
func (p *PD) CreateSRQ(cfg SRQConfig) (*SRQ, error) {
	if err := cfg.check(p.dev); err != nil {
		return nil, err
	}
	p.users.Add(1)
	s := &SRQ{pd: p, num: xctl.SRQN(cfg.Number), sink: cfg.Sink}
	if cfg.Sink {
		return s, nil
	}
	if cfg.MaxReceive == 0 {
		cfg.MaxReceive = 128
	}
	s.cq, s.limit, s.onLimit, s.starved = cfg.CQ, cfg.Limit, cfg.OnLimit, make(map[*stream]struct{})
	s.rq.ring = make([]receiveSlot, cfg.MaxReceive)
	cfg.CQ.useSRQ(1)
	return s, nil
}

// check tells which field of c is wrong.
func (c *SRQConfig) check(dev *Device) error {
	most := c.MaxReceive
	if most == 0 {
		most = 128
	}
	switch {
	case !xctl.SRQN(c.Number).Valid():
		return badField("SRQConfig.Number", "%#x is not in 1..%#x", c.Number, xctl.MaxSRQN)
	case c.Sink && c.CQ != nil:
		return badField("SRQConfig.CQ", "set beside Sink")
	case c.Sink && c.MaxReceive != 0:
		return badField("SRQConfig.MaxReceive", "%d beside Sink", c.MaxReceive)
	case c.Sink && c.Limit != 0:
		return badField("SRQConfig.Limit", "%d beside Sink", c.Limit)
	case c.Sink && c.OnLimit != nil:
		return badField("SRQConfig.OnLimit", "set beside Sink")
	case c.Sink:
		return nil
	case c.CQ == nil:
		return badField("SRQConfig.CQ", "missing")
	case c.CQ.dev != dev:
		return badField("SRQConfig.CQ", "of another device")
	case most < 1 || most > maxQueue:
		return badField("SRQConfig.MaxReceive", "%d is not in 1..%d", c.MaxReceive, maxQueue)
	case c.Limit < 0 || c.Limit > most:
		return badField("SRQConfig.Limit", "%d is not in 0..%d", c.Limit, most)
	}
	return nil
}

// badField is the error about one field of what a program has asked for.
func badField(field, format string, args ...any) error {
	return fmt.Errorf("iwarp: %s: %w", fmt.Sprintf(field+": "+format, args...), syscall.EINVAL)
}

// Domain is the queue's protection domain.
func (s *SRQ) Domain() *mr.Domain { return s.pd.domain }

// Num is the queue's number.
func (s *SRQ) Num() uint32 { return uint32(s.num) }

// PostReceive is that of a queue pair. It wakes senders that found the queue
// empty. Keys that the queue's PD does not own are refused (ErrForeign) if that shares its
// domain with others (PD.Share).
func (s *SRQ) PostReceive(reqs ...ReceiveRequest) (int, error) {
	switch {
	case s.closed.Load():
		return 0, ErrClosed
	case s.sink:
		return 0, fmt.Errorf("iwarp: receives posted to a queue with a sink: %w", syscall.EINVAL)
	}
	own := s.owned(reqs)
	n, err := s.rq.post(reqs[:own], nil)
	if n > 0 {
		s.feed()
	}
	if err == nil && own < len(reqs) {
		err = ErrForeign
	}
	return n, err
}

// owned is how many requests there are before the first that names memory of others.
func (s *SRQ) owned(reqs []ReceiveRequest) int {
	if s.pd.base == nil {
		return len(reqs) // the domain tells, when the memory is touched
	}
	for i := range reqs {
		for _, g := range reqs[i].SGE {
			if !s.pd.Owns(g.Key) {
				return i
			}
		}
	}
	return len(reqs)
}

// feed tells the connections that met an empty queue.
func (s *SRQ) feed() {
	s.mu.Lock()
	hungry := keys(s.starved)
	clear(s.starved)
	s.mu.Unlock()
	for _, st := range hungry {
		st.shared.feed(s.num)
		st.conn.Wake()
	}
}

// Posted is how many receive requests wait for messages.
func (s *SRQ) Posted() int { return s.rq.posted() }

// Resize changes how many receive requests there is room for: not to fewer than are posted,
// or being filled.
func (s *SRQ) Resize(n int) error {
	if s.sink || n > maxQueue || !s.rq.resize(n) {
		return fmt.Errorf("iwarp: receive queue of %d requests: %w", n, syscall.EINVAL)
	}
	return nil
}

// Limit is what SRQConfig.Limit or Arm has set, 0 once OnLimit was called.
func (s *SRQ) Limit() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limit
}

// Arm has OnLimit called once more when fewer than limit requests are posted.
func (s *SRQ) Arm(limit int) {
	s.mu.Lock()
	s.limit = limit
	s.mu.Unlock()
}

// pop takes the oldest request for a message of st. If there is none, st hears of
// the next one.
func (s *SRQ) pop(st *stream, to *receiveSlot) bool {
	ok := s.rq.lend(to)
	if !ok {
		s.mu.Lock()
		s.starved[st] = struct{}{}
		s.mu.Unlock()
		if ok = s.rq.lend(to); ok { // a receive request was posted meanwhile
			s.forget(st)
		}
	}
	if ok {
		s.checkLimit()
	}
	return ok
}

// putBack returns the request of a message that is not delivered.
func (s *SRQ) putBack(slot *receiveSlot) {
	s.rq.unpop(slot)
	s.feed()
}

// stock is how many requests are posted. If there are none, st hears of the next
// one.
func (s *SRQ) stock(st *stream) int {
	if s.sink {
		return math.MaxInt32
	}
	if n := s.rq.posted(); n > 0 {
		return n
	}
	s.mu.Lock()
	s.starved[st] = struct{}{}
	s.mu.Unlock()
	n := s.rq.posted()
	if n > 0 {
		s.forget(st)
	}
	return n
}

// forget is for a connection that has ended, or is not starved after all.
func (s *SRQ) forget(st *stream) {
	s.mu.Lock()
	delete(s.starved, st)
	s.mu.Unlock()
}

func (s *SRQ) checkLimit() {
	if s.onLimit == nil {
		return
	}
	s.mu.Lock()
	reached := s.limit > 0 && s.rq.posted() < s.limit
	if reached {
		s.limit = 0
	}
	s.mu.Unlock()
	if reached {
		s.onLimit(s)
	}
}

// enter begins to use the queue's memory; it fails if the queue is closed. leave
// ends it, soon after.
func (s *SRQ) enter() bool {
	s.using.RLock()
	if s.closed.Load() {
		s.using.RUnlock()
		return false
	}
	return true
}

func (s *SRQ) leave() { s.using.RUnlock() }

// Close destroys the queue. What is posted is forgotten without a completion, as
// verbs has it; when Close returns none of its memory is touched any more. Peers
// that send to it are told that there is no such queue. The caller has taken it
// out of its Queues. Messages that are under way to a queue with a sink go to the
// sink all the same, if Queues.Find knows another queue with a sink for the number.
func (s *SRQ) Close() error {
	if s.closed.Swap(true) {
		return ErrClosed
	}
	defer s.pd.users.Add(-1)
	if s.sink {
		return nil
	}
	s.using.Lock() // whoever holds using leaves, and nobody takes it any more
	s.rq.drop()
	s.using.Unlock()
	s.feed()
	s.cq.useSRQ(-1)
	return nil
}

// Queues finds the shared receive queues that the peer of a connection may name.
// It is asked on the event loop, for the first segment of each message, and must
// not block. nil means that there is no such queue, for this peer at least.
//
// An SRQ with a sink may be found by other numbers than its own, of which the sink hears
// by Sink.Queue. So a program whose queues come and go, and whose sink sorts messages by
// what they say, loses none: it gives one of them for every number that was in use.
type Queues interface {
	Find(number uint32) *SRQ
}
