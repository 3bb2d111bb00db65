package iwarp

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"

	"github.com/rds-go/rds/internal/lockorder"
)

// ErrOverrun: a completion found its queue full (EOVERFLOW). The queue is of no more use,
// and its queue pairs are in error.
var ErrOverrun = fmt.Errorf("iwarp: completion queue overrun: %w", syscall.EOVERFLOW)

// ErrBusy: the object is still used by others (EBUSY).
var ErrBusy = fmt.Errorf("iwarp: object in use: %w", syscall.EBUSY)

// CQ is a completion queue: a bounded ring that queue pairs fill and the
// program polls. Size it for all that can complete at once, the send and the
// receive queues of all its queue pairs: a completion that finds it full ends
// it and them (ErrOverrun).
//
// Its methods are safe for concurrent use; each completion goes to one caller.
type CQ struct {
	dev *Device

	mu      lockorder.Mutex[CQ]
	size    int
	ring    []Completion            // guarded by mu; grows to size
	head, n int                     // guarded by mu
	waiting [2]int                  // guarded by mu; goroutines in wait: for anything, for solicited completions
	overrun bool                    // guarded by mu
	told    bool                    // guarded by mu: the event of the overrun was reported
	closed  bool                    // guarded by mu
	users   map[*QP]struct{}        // guarded by mu; once for each queue pair
	srqs    int                     // guarded by mu; shared receive queues
	lost    func()                  // guarded by mu; see OnOverrun
	divert  func([]Completion) bool // guarded by mu; see Divert
	moved   []Completion            // guarded by mu; scratch of divert

	wake chan struct{} // cap 1: has waiting goroutines look again
	held atomic.Int32  // queue pairs that hold requests back, see streak
}

const (
	forAny       = iota
	forSolicited // waits for solicited completions and for errors
)

// CreateCQ makes a completion queue of n entries.
func (d *Device) CreateCQ(n int) (*CQ, error) {
	if n < 1 || n > maxQueue {
		return nil, fmt.Errorf("iwarp: completion queue of %d entries: %w", n, syscall.EINVAL)
	}
	return &CQ{dev: d, size: n, users: make(map[*QP]struct{}), wake: make(chan struct{}, 1)}, nil
}

// Poll takes up to len(dst) completions and returns their number.
func (c *CQ) Poll(dst []Completion) int {
	c.mu.Lock()
	n := min(len(dst), c.n)
	if n > 0 {
		k := copy(dst[:n], c.ring[c.head:])
		copy(dst[k:n], c.ring)
		c.head = (c.head + n) % len(c.ring)
		c.n -= n
	}
	c.mu.Unlock()
	if n == 0 {
		c.letGo()
	}
	return n
}

// Wait returns when there is something to Poll: nil, or the reason why nothing
// will come any more, or ctx's error.
func (c *CQ) Wait(ctx context.Context) error { return c.wait(ctx, forAny) }

// WaitSolicited is like Wait, but is woken only by completions whose sender set
// Solicited and by those that failed. It returns at once if anything is there.
func (c *CQ) WaitSolicited(ctx context.Context) error { return c.wait(ctx, forSolicited) }

func (c *CQ) wait(ctx context.Context, what int) error {
	for {
		c.mu.Lock()
		if c.n > 0 || c.overrun || c.closed {
			n, overrun := c.n, c.overrun
			// The wake-up may have been for several of us.
			again := c.waiting != [2]int{}
			c.mu.Unlock()
			if again {
				c.signal()
			}
			switch {
			case n > 0:
				return nil
			case overrun:
				return ErrOverrun
			}
			return ErrClosed
		}
		c.waiting[what]++
		c.mu.Unlock()
		c.letGo()
		var err error
		select {
		case <-c.wake:
		case <-ctx.Done():
			err = ctx.Err()
		}
		c.mu.Lock()
		c.waiting[what]--
		c.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

func (c *CQ) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// OnOverrun has f called, with no lock held, once when the queue is lost to an overrun.
func (c *CQ) OnOverrun(f func()) {
	c.mu.Lock()
	c.lost = f
	c.mu.Unlock()
}

// Divert has f take the completions, in their order and one call at a time, in place of Poll, for a
// program whose completions somebody else reads. That f is false, because it has no room, is an overrun. It must not block, and
// calls no method of the queue. It is called before anything completes here.
func (c *CQ) Divert(f func([]Completion) bool) {
	c.mu.Lock()
	c.divert = f
	c.mu.Unlock()
}

// Push adds completions of requests that no queue pair has any more: those of an XRC initiator
// outlive the connections that they were posted on. What does not fit is an overrun. The
// caller holds no lock that OnOverrun's function takes.
func (c *CQ) Push(list ...Completion) {
	if !c.push(list) {
		c.fail()
	}
}

// push adds completions. If they do not fit, the queue is lost; the caller then
// calls fail with no lock held.
func (c *CQ) push(list []Completion) bool {
	if len(list) == 0 {
		return true
	}
	c.mu.Lock()
	if c.divert != nil {
		defer c.mu.Unlock()
		c.moved = append(c.moved[:0], list...) // a copy, because what is handed to a func is on the heap
		c.overrun = c.overrun || !c.divert(c.moved)
		return !c.overrun
	}
	if c.overrun || len(list) > c.size-c.n {
		c.overrun = true
		c.mu.Unlock()
		c.signal()
		return false
	}
	c.growLocked(len(list))
	wake := c.waiting[forAny] > 0
	at := (c.head + c.n) % len(c.ring)
	for i := range list {
		wake = wake || c.waiting[forSolicited] > 0 && (list[i].Solicited || list[i].Status != Success)
		c.ring[at] = list[i]
		if at++; at == len(c.ring) {
			at = 0
		}
	}
	c.n += len(list)
	c.mu.Unlock()
	if wake {
		c.signal()
	}
	return true
}

// growLocked makes room in the ring for n completions more, of which there are no more than size.
func (c *CQ) growLocked(n int) {
	if n <= len(c.ring)-c.n {
		return
	}
	ring := make([]Completion, min(max(2*len(c.ring), c.n+n, firstEntries), c.size))
	if c.n > 0 {
		k := copy(ring[:c.n], c.ring[c.head:])
		copy(ring[k:c.n], c.ring)
	}
	c.ring, c.head = ring, 0
}

// firstEntries is how long the ring of a completion queue is at first, unless the queue is smaller.
const firstEntries = 32

// fail moves all queue pairs of an overrun queue to error. The first call also
// raises the event; there are more as long as shared receive queues complete here.
func (c *CQ) fail() {
	c.mu.Lock()
	users := keys(c.users)
	first, lost := !c.told, c.lost
	c.told = true
	c.mu.Unlock()
	if first {
		c.dev.event(Event{Kind: EventCQError, CQ: c})
	}
	if first && lost != nil {
		lost()
	}
	for _, q := range users {
		q.fail(failure{err: ErrOverrun, status: Flushed})
	}
}

// use notes that q completes here.
func (c *CQ) use(q *QP) {
	c.mu.Lock()
	c.users[q] = struct{}{}
	c.mu.Unlock()
}

func (c *CQ) unuse(q *QP) {
	c.mu.Lock()
	delete(c.users, q)
	c.mu.Unlock()
}

// purge removes what q has left in the queue, as destroying it does.
func (c *CQ) purge(q *QP) { c.remove(func(e *Completion) bool { return e.QP == q }) }

// PurgeInitiator removes what an XRC initiator has left in the queue.
func (c *CQ) PurgeInitiator(number uint32) {
	c.remove(func(e *Completion) bool { return e.Initiator == number })
}

func (c *CQ) remove(which func(*Completion) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := 0
	for i := range c.n {
		e := &c.ring[(c.head+i)%len(c.ring)]
		if which(e) {
			continue
		}
		c.ring[(c.head+kept)%len(c.ring)] = *e
		kept++
	}
	c.n = kept
}

// useSRQ counts the shared receive queues that complete here.
func (c *CQ) useSRQ(n int) {
	c.mu.Lock()
	c.srqs += n
	c.mu.Unlock()
}

// Close destroys the queue; ErrBusy while queue pairs, or shared receive queues,
// complete there.
func (c *CQ) Close() error {
	c.mu.Lock()
	if len(c.users)+c.srqs > 0 {
		c.mu.Unlock()
		return ErrBusy
	}
	c.mu.Unlock()
	c.Free()
	return nil
}

// Free is Close for a program that is done with the queue and with all that completes there:
// goroutines in Wait return, though a shared receive queue may not have ended yet.
func (c *CQ) Free() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.signal()
}
