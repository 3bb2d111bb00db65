package client

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/socket"
)

// listening is who takes an attachment's completions, and waits at the ear for more:
// the dispatcher, or a receiver that has nothing else to wait for. A message that its
// receiver takes from the ring itself spares the hand-over from one goroutine to
// another, which costs as much as the rest of receiving.
//
// The dispatcher listens as long as several goroutines wait, or messages are few. When
// they come one soon after the other, and for one goroutine, it offers that one its
// place. A receiver that listens leaves with its messages and mostly comes back.
// Meanwhile nobody listens, so whoever waits for something else has the dispatcher
// listen, who only looks takes what is there, and the dispatcher looks now and then, ever
// more seldom: it listens again when no receiver has come back, or one has waited long.
type listening struct {
	role    chan struct{} // token (cap 1): its holder alone takes completions from the ring
	nudge   chan struct{} // cap 1: has the dispatcher look who listens
	held    atomic.Bool   // role is with a receiver that waits at the ear
	others  atomic.Int32  // goroutines that wait and do not listen
	turns   atomic.Uint32 // receivers that take turns at listening
	offered atomic.Bool   // set by the dispatcher, which has role: the next receiver may take it
	wanted  atomic.Bool   // set by a receiver that wants what is offered
	recall  atomic.Bool   // set by the dispatcher, which wants role back
	longest time.Duration // longest time that a receiver listens without a message

	// For the holder of role:
	cq    ipc.Consumer
	d     delivery
	brisk int       // turns in a row for one goroutine
	since time.Time // when the first of the brisk turns began
}

const (
	// lookFirst is how soon the dispatcher looks whether a receiver has come back. It looks
	// half as often each time that one has, but every lookLast: that bounds how late what nobody
	// waits for is taken.
	lookFirst = time.Millisecond
	lookLast  = 64 * time.Millisecond
	// briskTurns is how many turns the dispatcher judges a receiver by: they have to come
	// within briskTime. A hand-over costs two threads' switches, and a look one.
	briskTurns = 64
	briskTime  = time.Second
)

func (l *listening) init(t *attachment) {
	l.role, l.nudge = make(chan struct{}, 1), make(chan struct{}, 1)
	l.role <- struct{}{}
	l.longest = lookLast
	l.cq, l.d.t = t.seg.Completed(), t
}

// dispatch is the dispatcher, until the daemon has gone.
func (t *attachment) dispatch() {
	l := &t.listening
	for {
		select {
		case <-l.role:
		case <-t.gone:
			return
		}
		l.recall.Store(false)
		err := t.listen(nil)
		l.offered.Store(false)
		l.wanted.Store(false)
		l.role <- struct{}{}
		if err != nil {
			t.end(err)
			return
		}
		if !t.watch() {
			return
		}
	}
}

// watch returns when the dispatcher has to listen again, false with the attachment.
func (t *attachment) watch() bool {
	l := &t.listening
	every := lookFirst
	tick := time.NewTimer(every)
	defer tick.Stop()
	idle := time.Duration(0)
	for last := l.turns.Load(); l.others.Load() == 0 || l.held.Load(); {
		select {
		case <-t.gone:
			return false
		case <-l.nudge:
			continue
		case <-tick.C:
		}
		if turns := l.turns.Load(); turns != last {
			last, idle = turns, 0
			t.catchUp()
			every = min(2*every, lookLast)
		} else if idle += every; !l.held.Load() {
			return true
		} else if idle >= l.longest {
			l.recall.Store(true)
			t.ear.Rouse()
			return true
		}
		tick.Reset(every)
	}
	return true
}

// nudgeDispatcher has the dispatcher look who listens.
func (l *listening) nudgeDispatcher() {
	select {
	case l.nudge <- struct{}{}:
	default:
	}
}

// wait is socket.Waiter.Wait for who waits for something of the attachment. Who receives may
// listen meanwhile.
func (t *attachment) wait(ctx context.Context, w *socket.Waiter, receives bool) error {
	l := &t.listening
	if receives && ctx.Done() == nil && t.takeRole(w) {
		err := t.listen(w)
		l.turns.Add(1)
		l.role <- struct{}{}
		if l.others.Load() > 0 {
			l.nudgeDispatcher()
		}
		if err != nil {
			t.end(err)
			return nil // the caller finds out
		}
	}
	l.others.Add(1)
	defer l.others.Add(-1)
	if len(w.C) == 0 && !l.held.Load() {
		l.nudgeDispatcher()
	}
	return w.Wait(ctx)
}

// takeRole makes the caller, who is not woken yet, the one that listens, if nobody else
// does or the dispatcher has offered its place.
func (t *attachment) takeRole(w *socket.Waiter) bool {
	l := &t.listening
	select {
	case <-l.role:
		return true
	default:
	}
	if !l.offered.CompareAndSwap(true, false) {
		return false
	}
	l.wanted.Store(true)
	t.ear.Rouse()
	select {
	case <-l.role:
		l.wanted.Store(false) // the dispatcher may have given it up before
		return true
	case <-w.C:
		w.C <- struct{}{} // the channel has room for the only token
		if !l.wanted.Swap(false) {
			l.nudgeDispatcher() // the dispatcher has given up its place, and nobody has taken it
		}
		return false
	}
}

// listen takes completions: a receiver until its waiter is woken or the dispatcher
// wants the role back, the dispatcher, whose waiter is nil, until a receiver wants it.
// The caller has the role.
func (t *attachment) listen(w *socket.Waiter) error {
	l := &t.listening
	l.held.Store(true)
	defer l.held.Store(false)
	l.brisk = 0
	over := func() bool {
		if w == nil {
			return l.wanted.Load()
		}
		return len(w.C) > 0 || l.recall.Load()
	}
	for sleeps := t.seg.ApplicationSleeps(); !over(); {
		some, err := t.turn()
		if err != nil {
			return err
		}
		if some {
			if w == nil {
				l.judge()
			}
			continue
		}
		sleeps.Set()
		if n, err := l.cq.Refresh(); n == 0 && err == nil {
			if err := t.hark(w, over); err != nil {
				return err
			}
		}
		sleeps.Clear()
	}
	return nil
}

// hark waits at the ear, unless it is over. Who wakes w meanwhile rouses the ear.
func (t *attachment) hark(w *socket.Waiter, over func() bool) error {
	if w != nil {
		w.Ear.Store(t.ear)
		defer w.Ear.Store(nil)
	}
	if over() {
		return nil
	}
	return t.ear.Wait()
}

// judge has the dispatcher offer its place when it works for one goroutine, and
// often.
func (l *listening) judge() {
	if l.others.Load() > 1 {
		l.brisk = 0
		l.offered.Store(false)
		return
	}
	if l.brisk == 0 {
		l.since = time.Now()
	}
	if l.brisk++; l.brisk == briskTurns {
		l.brisk = 0
		l.offered.Store(time.Since(l.since) < briskTime)
	}
}

// catchUp takes what is there if nobody listens, and tells whether there was any.
func (t *attachment) catchUp() bool {
	l := &t.listening
	if l.held.Load() {
		return false
	}
	select {
	case <-l.role:
	default:
		return false
	}
	some, _ := t.turn() // whoever listens next finds the error too
	l.role <- struct{}{}
	return some
}
