package xrc

import (
	"sync"

	"github.com/rds-go/rds/transport/iwarp"
)

// Queue holds the receives of a shared receive queue, first in, first out. A
// transport has its own, or uses NewRing. All methods may be called
// concurrently; Pop is on the data path and must not block.
type Queue interface {
	// PostReceive copies receives in order and returns how many it took; the
	// error is about the first that it did not take, ErrFull for want of room.
	PostReceive(list []iwarp.ReceiveRequest) (int, error)
	// Pop takes the oldest and tells how many are left. It reuses the memory of
	// into.SGE.
	Pop(into *iwarp.ReceiveRequest) (left int, ok bool)
	// Len is how many are posted.
	Len() int
	// Close drops them: they vanish without completions.
	Close()
}

// Resizer is a Queue that can change how many receives it has room for. Resize
// fails, and changes nothing, when more are posted.
type Resizer interface {
	Resize(n int) error
}

// Limiter is a Queue whose receives are taken without SRQ.Take. Arm has it call
// reached when a message leaves fewer receives than limit, once; 0 disarms it. Arm
// is called under Device.mu and calls nothing back.
type Limiter interface {
	Arm(limit int, reached func())
}

// NewRing makes a Queue of n receives with up to sge pieces of memory each.
func NewRing(n, sge int) Queue {
	r := &ring{sge: sge}
	r.slots = r.make(n)
	return r
}

type ring struct {
	sge int

	mu sync.Mutex
	// Under mu, a leaf.
	slots   []iwarp.ReceiveRequest
	head, n int
	closed  bool
}

func (r *ring) make(n int) []iwarp.ReceiveRequest {
	slots, pieces := make([]iwarp.ReceiveRequest, n), make([]iwarp.SGE, n*r.sge)
	for i := range slots {
		slots[i].SGE = pieces[i*r.sge : i*r.sge : (i+1)*r.sge]
	}
	return slots
}

func (r *ring) at(i int) *iwarp.ReceiveRequest {
	if i += r.head; i >= len(r.slots) {
		i -= len(r.slots)
	}
	return &r.slots[i]
}

func (r *ring) PostReceive(list []iwarp.ReceiveRequest) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range list {
		switch {
		case r.closed:
			return i, ErrClosed
		case len(list[i].SGE) > r.sge:
			return i, ErrAttribute
		case r.n == len(r.slots):
			return i, ErrFull
		}
		copyReceive(r.at(r.n), &list[i])
		r.n++
	}
	return len(list), nil
}

func (r *ring) Pop(into *iwarp.ReceiveRequest) (int, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == 0 {
		return 0, false
	}
	copyReceive(into, r.at(0))
	if r.head++; r.head == len(r.slots) {
		r.head = 0
	}
	r.n--
	return r.n, true
}

func copyReceive(to, from *iwarp.ReceiveRequest) {
	to.ID = from.ID
	to.SGE = append(to.SGE[:0], from.SGE...)
}

func (r *ring) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

func (r *ring) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed, r.n = true, 0
}

func (r *ring) Resize(n int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n < max(r.n, 1) {
		return ErrAttribute
	}
	slots := r.make(n)
	for i := range r.n {
		copyReceive(&slots[i], r.at(i))
	}
	r.slots, r.head = slots, 0
	return nil
}
