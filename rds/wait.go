package rds

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/internal/ipc"
)

// waitQueue is a set of goroutines that wait for something to change. The
// pattern is: add, look once more, wait, look again.
type waitQueue struct {
	n      atomic.Int32 // waiters queued; readable without mu
	mu     sync.Mutex
	head   *waiter // oldest waiter first
	tail   *waiter
	spare  *waiter // waiters for add to use again, linked by next
	spares int
}

// maxSpares bounds the waiters that a queue keeps to use again.
const maxSpares = 8

type waiter struct {
	c          chan struct{}           // cap 1: has a token when the waiter was woken
	ear        atomic.Pointer[ipc.Ear] // where the owner waits instead of at c; nil: at c
	prev, next *waiter
	queued     bool
}

func (q *waitQueue) add() *waiter {
	q.mu.Lock()
	w := q.spare
	if w != nil {
		q.spare = w.next
		q.spares--
	} else {
		w = &waiter{c: make(chan struct{}, 1)}
	}
	w.queued, w.prev, w.next = true, q.tail, nil
	if q.tail == nil {
		q.head = w
	} else {
		q.tail.next = w
	}
	q.tail = w
	q.n.Add(1) // under mu: who is woken takes one away, which would be another's
	q.mu.Unlock()
	return w
}

func (q *waitQueue) unlinkLocked(w *waiter) {
	if w.prev == nil {
		q.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.queued, w.prev, w.next = false, nil, nil
	q.n.Add(-1)
}

// done takes a waiter that waits no longer out. A wake-up that came too late
// for it is passed on.
func (q *waitQueue) done(w *waiter) {
	q.mu.Lock()
	woken := !w.queued
	if !woken {
		q.unlinkLocked(w)
	}
	q.mu.Unlock()
	if woken {
		select {
		case <-w.c: // take back the token: the waiter left for another reason
			q.wake(1)
		default:
		}
	}
	q.mu.Lock()
	if q.spares < maxSpares {
		w.next, q.spare = q.spare, w
		q.spares++
	}
	q.mu.Unlock()
}

// wake wakes up to n waiters, oldest first; all of them if n is negative.
func (q *waitQueue) wake(n int) {
	if q.n.Load() == 0 {
		return
	}
	q.mu.Lock()
	for ; n != 0 && q.head != nil; n-- {
		w := q.head
		q.unlinkLocked(w)
		w.c <- struct{}{}
		if ear := w.ear.Load(); ear != nil {
			ear.Rouse()
		}
	}
	q.mu.Unlock()
}

// wait blocks until the waiter is woken or ctx ends. The caller looks at its
// condition, its deadline and closing again; whoever changes those wakes it.
func (w *waiter) wait(ctx context.Context) error {
	done := ctx.Done()
	if done == nil {
		<-w.c
		return nil
	}
	select {
	case <-w.c:
		return nil
	case <-done:
		return ctx.Err()
	}
}

// deadline is a point in time that can be moved while goroutines wait for it.
type deadline struct {
	expired atomic.Bool
	mu      sync.Mutex
	timer   *time.Timer
	gen     uint64
}

// set moves the deadline to t, never if t is zero, and calls wake when it
// passes or has passed.
func (d *deadline) set(t time.Time, wake func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.gen++
	d.expired.Store(false)
	if t.IsZero() {
		return
	}
	gen := d.gen
	expire := func() {
		d.mu.Lock()
		current := d.gen == gen
		if current {
			d.expired.Store(true)
		}
		d.mu.Unlock()
		if current {
			wake()
		}
	}
	if left := time.Until(t); left > 0 {
		d.timer = time.AfterFunc(left, expire)
		return
	}
	d.expired.Store(true)
	wake()
}

func (d *deadline) err() error {
	if d.expired.Load() {
		return os.ErrDeadlineExceeded
	}
	return nil
}
