package socket

import (
	"context"
	"os"
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/lockorder"
)

// WaitQueue is a set of goroutines that wait for something to change. The
// pattern is: add, look once more, wait, look again.
type WaitQueue struct {
	N      atomic.Int32 // waiters queued; readable without mu
	Mu     lockorder.Mutex[WaitQueue]
	Head   *Waiter // oldest waiter first
	tail   *Waiter
	spare  *Waiter // waiters for add to use again, linked by next
	spares int
}

// maxSpares bounds the waiters that a queue keeps to use again.
const maxSpares = 8

type Waiter struct {
	C          chan struct{}           // cap 1: has a token when the waiter was woken
	Ear        atomic.Pointer[ipc.Ear] // where the owner waits instead of at c; nil: at c
	prev, next *Waiter
	queued     bool
}

func (q *WaitQueue) Add() *Waiter {
	q.Mu.Lock()
	w := q.spare
	if w != nil {
		q.spare = w.next
		q.spares--
	} else {
		w = &Waiter{C: make(chan struct{}, 1)}
	}
	w.queued, w.prev, w.next = true, q.tail, nil
	if q.tail == nil {
		q.Head = w
	} else {
		q.tail.next = w
	}
	q.tail = w
	q.N.Add(1) // under mu: who is woken takes one away, which would be another's
	q.Mu.Unlock()
	return w
}

func (q *WaitQueue) unlinkLocked(w *Waiter) {
	if w.prev == nil {
		q.Head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.queued, w.prev, w.next = false, nil, nil
	q.N.Add(-1)
}

// Done takes a waiter that waits no longer out. A wake-up that came too late
// for it is passed on.
func (q *WaitQueue) Done(w *Waiter) {
	q.Mu.Lock()
	woken := !w.queued
	if !woken {
		q.unlinkLocked(w)
	}
	q.Mu.Unlock()
	if woken {
		select {
		case <-w.C: // take back the token: the waiter left for another reason
			q.Wake(1)
		default:
		}
	}
	q.Mu.Lock()
	if q.spares < maxSpares {
		w.next, q.spare = q.spare, w
		q.spares++
	}
	q.Mu.Unlock()
}

// Wake wakes up to n waiters, oldest first; all of them if n is negative.
func (q *WaitQueue) Wake(n int) {
	if q.N.Load() == 0 {
		return
	}
	q.Mu.Lock()
	for ; n != 0 && q.Head != nil; n-- {
		w := q.Head
		q.unlinkLocked(w)
		w.C <- struct{}{}
		if ear := w.Ear.Load(); ear != nil {
			ear.Rouse()
		}
	}
	q.Mu.Unlock()
}

// Wait blocks until the waiter is woken or ctx ends. The caller looks at its
// condition, its deadline and closing again; whoever changes those wakes it.
func (w *Waiter) Wait(ctx context.Context) error {
	done := ctx.Done()
	if done == nil {
		<-w.C
		return nil
	}
	select {
	case <-w.C:
		return nil
	case <-done:
		return ctx.Err()
	}
}

// Deadline is a point in time that can be moved while goroutines wait for it.
type Deadline struct {
	expired atomic.Bool
	mu      lockorder.Mutex[Deadline]
	timer   *time.Timer
	gen     uint64
}

// Set moves the deadline to t, never if t is zero, and calls wake when it
// passes or has passed.
func (d *Deadline) Set(t time.Time, wake func()) {
	if d.set(t, wake) {
		wake()
	}
}

// set tells whether t has passed.
func (d *Deadline) set(t time.Time, wake func()) (passed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.gen++
	d.expired.Store(false)
	if t.IsZero() {
		return false
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
		return false
	}
	d.expired.Store(true)
	return true
}

func (d *Deadline) Err() error {
	if d.expired.Load() {
		return os.ErrDeadlineExceeded
	}
	return nil
}
