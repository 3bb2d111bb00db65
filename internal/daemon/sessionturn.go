package daemon

import (
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/internal/gnetloop"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/lockorder"
)

// An application's submissions are taken on an event loop, mostly the one that reads from the peer
// that the application sends to: the session's ear is in the loop's epoll instance. So a ring
// wakes one thread, which takes the submission and writes it to the peer's socket.
//
// The loop serves others, too. A turn is bounded in entries, in payload and in what is written,
// it waits for no lock that a call holds, and what takes long, as the session's end, runs beside
// the loop.

// Bounds of one turn of a session.
const (
	pumpEntries = 2048      // submissions taken before others get a turn
	pumpBytes   = 512 << 10 // payload bytes taken before others get a turn
	writeBytes  = 512 << 10 // octets written to a peer in one go: one write of a burst, the flusher writes more

	burstEntries = 2        // more submissions than that in a turn are a burst: others may follow at once
	burstBytes   = 32 << 10 // so are so many bytes
	nearTurns    = 64       // useful turns after which a session looks where its peer is read

	maxIdleRings = 1 << 20                // rings for nothing, in a row, that end a session
	idleRings    = 64                     // rings for nothing after which the ear is muted with each ring
	idlePenalty  = 500 * time.Microsecond // how long the ear is muted
)

// turnLock is a mutex that an event loop never waits for. The loop leaves its turn to whoever
// holds the mutex: that one has the loop come again.
type turnLock struct {
	lockorder.Mutex[turnLock]
	due  atomic.Bool // the loop was here
	poke func()      // has the loop come again; nil: there is no loop
}

// Unlock gives the lock back.
func (l *turnLock) Unlock() {
	l.Mutex.Unlock()
	if l.due.Load() && l.due.Swap(false) && l.poke != nil {
		l.poke()
	}
}

// tryLock is for the loop. If it is false, Unlock will poke: either the second look finds the
// lock free, or its holder, who gives it back later, finds due.
func (l *turnLock) tryLock() bool {
	if l.TryLock() {
		return true
	}
	l.due.Store(true)
	return l.TryLock()
}

// hearing is what listens to a session's ear.
type hearing struct {
	source atomic.Pointer[gnetloop.Source] // nil: nobody listens

	mu   lockorder.Mutex[hearing] // held while an event loop gives the ear up, so that the ear is closed after that
	over bool                     // nobody listens any more

	// For the event loop:
	idle  int  // rings for nothing in a row
	turns int  // turns that took submissions
	fell  bool // the session ends
}

// hear has an event loop listen to the ear and take submissions.
func (x *session) hear() {
	h := &x.hearing
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over && h.source.Load() == nil {
		x.svc.work.Add(1)
		h.source.Store(x.svc.loops.Watch(x.ear.FD(), x))
		x.poke() // the first turn may have been before a poke that has found no source
	}
}

// deafen ends that, for good if over. When it returns no turn is under way. It is not called on
// an event loop.
func (x *session) deafen(over bool) {
	h := &x.hearing
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = h.over || over
	if s := h.source.Swap(nil); s != nil {
		s.Stop()
		x.svc.work.Done()
	}
}

// fall ends the session beside the event loop.
func (x *session) fall(err error) (gnetloop.Next, time.Duration) {
	if !x.hearing.fell {
		x.hearing.fell = true
		x.beginWork(func() { x.end(err) })
	}
	return gnetloop.Mute, 0
}

// Serve is a turn of the session on its event loop: it takes what was submitted, and does what
// others have poked the session for.
func (x *session) Serve(rung bool) (gnetloop.Next, time.Duration) {
	h := &x.hearing
	if h.fell { // somebody has poked
		return gnetloop.Mute, 0
	}
	if rung { // before the looks at what was rung for
		if err := x.ear.Take(); err != nil {
			return x.fall(err)
		}
	}
	if x.mem.late.Load() { // before the look at returned memory
		x.seg.WantReturns().Set()
	}
	if !x.mu.tryLock() {
		return gnetloop.Rest, 0
	}
	n, more, err := x.pump(pumpEntries)
	more = more || err == nil && x.goesOnLocked()
	burst := n > burstEntries || x.took >= burstBytes
	near := x.toward
	x.mu.Unlock()
	if err != nil {
		return x.fall(err)
	}
	useful := n > 0
	useful = x.tell() || useful
	useful = x.queue.announce() || useful
	if xs := x.xrc.Load(); xs != nil {
		k, left, err := xs.turn(pumpEntries)
		if err != nil {
			return x.fall(err)
		}
		useful = xs.tell() || useful
		useful, more, burst = useful || k > 0, more || left, burst || k > burstEntries
	}
	if x.out.broken.Load() {
		return x.fall(errViolation)
	}
	if useful {
		h.idle = 0
	}
	if n > 0 {
		if h.turns++; h.turns%nearTurns == 1 && near != nil {
			if s := h.source.Load(); s != nil {
				s.Near(near.Remote)
			}
		}
	}
	switch {
	case more:
		return gnetloop.Again, 0
	case burst: // the application is at work, and more may be there soon
		return gnetloop.Yield, 0
	}
	over, xs := x.overBudget.Load(), x.xrc.Load()
	if !over || xs != nil { // over budget: credit wakes the session, and a bell would be for nothing but for posts
		x.sleeps.Set()
		ready := 0
		var err error
		if !over {
			if !x.mu.tryLock() {
				return gnetloop.Rest, 0
			}
			ready, err = x.sq.Refresh()
			x.mu.Unlock()
		}
		idle := true
		if ready == 0 && err == nil && xs != nil {
			idle, err = xs.idle()
		}
		if err != nil {
			return x.fall(err)
		}
		if ready > 0 || !idle {
			x.sleeps.Clear()
			return gnetloop.Again, 0
		}
	}
	if !rung || useful {
		return gnetloop.Rest, 0
	}
	if h.idle++; h.idle <= idleRings {
		return gnetloop.Rest, 0
	}
	if h.idle > maxIdleRings {
		return x.fall(errViolation)
	}
	return gnetloop.Mute, idlePenalty // a storm costs the application's time, not the daemon's
}

// poke has the session's event loop serve it.
func (x *session) poke() {
	if s := x.hearing.source.Load(); s != nil {
		s.Poke()
	}
}

// goesOnLocked tells whether the fates that submissions waited for have been read.
func (x *session) goesOnLocked() bool {
	if x.unread == nil || x.unread.s.Fates.Full() && !x.unread.s.Closed.Load() {
		return false
	}
	x.unread = nil
	x.overBudget.Store(false)
	return true
}

// listen gives the session its ear, and the application's end of that.
func (x *session) listen(self *ipc.Bell, ear *ipc.WatchedEar) {
	x.self, x.ear = self, ear
	x.mu.poke = x.poke
}
