package iwarp

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// SRQConfig sets up a shared receive queue.
type SRQConfig struct {
	Number     uint32 // number by which peers name the queue: 1 to 0xFFFFFE, unique in its Queues
	CQ         *CQ    // required: where messages complete
	MaxReceive int    // posted receive requests. 0 means 128
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
	sink    Sink        // sink of a direct queue, which of the fields above has num only
	ready   atomic.Bool // the sink of a direct queue takes all messages
	closed  atomic.Bool
	// using is held for reading while a byte of the queue's memory is written,
	// so that Close waits for that and not for the rest of a message.
	using sync.RWMutex

	mu      sync.Mutex
	limit   int                  // guarded by mu; 0: not armed
	starved map[*stream]struct{} // guarded by mu: connections that met an empty queue
}

// CreateSRQ makes a shared receive queue. The keys of its receive requests are
// of this domain.
func (p *PD) CreateSRQ(cfg SRQConfig) (*SRQ, error) {
	if cfg.MaxReceive == 0 {
		cfg.MaxReceive = 128
	}
	switch {
	case cfg.CQ == nil || cfg.CQ.dev != p.dev:
		return nil, fmt.Errorf("iwarp: completion queue missing or of another device: %w", syscall.EINVAL)
	case cfg.MaxReceive < 1 || cfg.MaxReceive > maxQueue || cfg.Limit < 0 || cfg.Limit > cfg.MaxReceive:
		return nil, fmt.Errorf("iwarp: shared receive queue of %d, limit %d: %w", cfg.MaxReceive, cfg.Limit, syscall.EINVAL)
	case !xctl.SRQN(cfg.Number).Valid():
		return nil, fmt.Errorf("iwarp: shared receive queue %#x: %w", cfg.Number, syscall.EINVAL)
	}
	s := &SRQ{pd: p, cq: cfg.CQ, num: xctl.SRQN(cfg.Number), limit: cfg.Limit, onLimit: cfg.OnLimit, starved: make(map[*stream]struct{})}
	s.rq.ring = make([]receiveSlot, cfg.MaxReceive)
	p.users.Add(1)
	cfg.CQ.useSRQ(1)
	return s, nil
}

// Num is the queue's number.
func (s *SRQ) Num() uint32 { return uint32(s.num) }

// PostReceive is that of a queue pair. It wakes senders that found the queue
// empty.
func (s *SRQ) PostReceive(reqs ...ReceiveRequest) (int, error) {
	if s.closed.Load() {
		return 0, ErrClosed
	}
	n, err := s.rq.post(reqs, nil)
	if n > 0 {
		s.feed()
	}
	return n, err
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
	if s.sink != nil {
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
// out of its Queues.
func (s *SRQ) Close() error {
	if s.closed.Swap(true) {
		return ErrClosed
	}
	s.using.Lock() // whoever holds using leaves, and nobody takes it any more
	s.rq.drop()
	s.using.Unlock()
	s.feed()
	s.cq.useSRQ(-1)
	s.pd.users.Add(-1)
	return nil
}

// Queues finds the shared receive queues that the peer of a connection may name.
// It is asked on the event loop, for the first segment of each message, and must
// not block. nil means that there is no such queue, for this peer at least.
type Queues interface {
	Find(number uint32) *SRQ
}
