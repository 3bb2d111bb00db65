package iwarp

import (
	"fmt"
	"syscall"

	"github.com/rds-go/rds/internal/lockorder"
)

// receiveQueue holds the memory that a program has posted for messages, first
// in, first out. The poster is one side, the event loop the other.
type receiveQueue struct {
	mu      lockorder.Mutex[receiveQueue]
	ring    []receiveSlot // guarded by mu
	head, n int           // guarded by mu
	lent    int           // guarded by mu: taken for messages that have not come whole, and may come back
	flushed bool          // guarded by mu: the queue pair has ended
}

// receiveSlot is a posted ReceiveRequest.
type receiveSlot struct {
	id  uint64
	n   int
	sge [MaxSGE]SGE
}

// room is how long a message may be.
func (s *receiveSlot) room() uint64 {
	var n uint64
	for i := range s.n {
		n += uint64(s.sge[i].Len)
	}
	return n
}

// PostReceive posts requests in order and returns how many it took; the error is
// about the first that it did not take. Keys are checked when a message comes.
func (q *QP) PostReceive(reqs ...ReceiveRequest) (int, error) {
	return q.rq.post(reqs, func(req *ReceiveRequest) {
		q.flushReceives([]Completion{{ID: req.ID, QP: q, Op: OpReceive, Status: Flushed}})
	})
}

// post adds requests; over is given those that come after flush.
func (r *receiveQueue) post(reqs []ReceiveRequest, over func(*ReceiveRequest)) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range reqs {
		req := &reqs[i]
		switch {
		case len(req.SGE) > MaxSGE:
			return i, fmt.Errorf("iwarp: %d pieces of memory, at most %d: %w", len(req.SGE), MaxSGE, syscall.EINVAL)
		case r.flushed:
			over(req)
			continue
		case r.n+r.lent == len(r.ring):
			return i, ErrQueueFull
		}
		at := r.head + r.n
		if at >= len(r.ring) {
			at -= len(r.ring)
		}
		s := &r.ring[at]
		s.id, s.n = req.ID, copy(s.sge[:], req.SGE)
		r.n++
	}
	return len(reqs), nil
}

// resize changes how many requests there is room for. It is false, and changes nothing, if
// more are posted or lent.
func (r *receiveQueue) resize(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n < max(r.n+r.lent, 1) {
		return false
	}
	ring := make([]receiveSlot, n)
	for i := range r.n {
		ring[i] = r.ring[(r.head+i)%len(r.ring)]
	}
	r.ring, r.head = ring, 0
	return true
}

// drop forgets what is posted.
func (r *receiveQueue) drop() {
	r.mu.Lock()
	r.n = 0
	r.mu.Unlock()
}

// posted is how many requests there are.
func (r *receiveQueue) posted() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

// lend takes the oldest request for a message that may yet be refused. Its place
// is kept until settle or unpop.
func (r *receiveQueue) lend(to *receiveSlot) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.popLocked(to) {
		return false
	}
	r.lent++
	return true
}

// settle is for a request that was lent and completes.
func (r *receiveQueue) settle() {
	r.mu.Lock()
	r.lent--
	r.mu.Unlock()
}

// unpop puts a request that was lent back in front: its message is not delivered.
func (r *receiveQueue) unpop(s *receiveSlot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.head--; r.head < 0 {
		r.head = len(r.ring) - 1
	}
	r.ring[r.head] = *s
	r.n++
	r.lent--
}

// pop takes the oldest request.
func (r *receiveQueue) pop(to *receiveSlot) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.popLocked(to)
}

func (r *receiveQueue) popLocked(to *receiveSlot) bool {
	if r.n == 0 {
		return false
	}
	*to = r.ring[r.head]
	if r.head++; r.head == len(r.ring) {
		r.head = 0
	}
	r.n--
	return true
}

// flush ends the queue; what was posted completes as flushed, first the request
// whose message was coming, if there was one.
func (q *QP) flushReceiveQueue(first []Completion) {
	r := &q.rq
	r.mu.Lock()
	defer r.mu.Unlock()
	list := first
	for ; r.n > 0; r.n-- {
		list = append(list, Completion{ID: r.ring[r.head].id, QP: q, Op: OpReceive, Status: Flushed})
		r.head = (r.head + 1) % len(r.ring)
	}
	r.flushed = true
	q.flushReceives(list)
}

func (q *QP) flushReceives(list []Completion) {
	if !q.cfg.RecvCQ.push(list) {
		q.dev.wg.Go(q.cfg.RecvCQ.fail)
	}
}
