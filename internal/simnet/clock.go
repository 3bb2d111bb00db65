package simnet

import (
	"time"

	"github.com/rds-go/rds/internal/driver"
)

// clock is a peer as the Runtime of its driver. Nothing happens in a process that is gone.
type clock peer

// Now is the virtual time.
func (c *clock) Now() time.Time { return c.h.s.clock().Add(c.skew) }

// timer is a driver.Timer.
type timer struct {
	p     *peer
	f     func()
	armed int // number of the event that is meant; others were stopped
	on    bool
}

// AfterFunc calls f in d.
func (c *clock) AfterFunc(d time.Duration, f func()) driver.Timer {
	t := &timer{p: (*peer)(c), f: f}
	t.set(d)
	return t
}

func (t *timer) set(d time.Duration) {
	s := t.p.h.s
	t.armed++
	t.on = true
	armed := t.armed
	hurried := d > 4*time.Millisecond && s.rigged(RedialAtOnce, 1) // below it is not the back-off
	if hurried {
		d /= 1000
	}
	s.after(max(0, d), func() {
		t.p.h.awake(func() {
			if t.p.dead || !t.on || t.armed != armed {
				return
			}
			t.on = false
			if hurried {
				t.p.skew = time.Hour
			}
			t.f()
			t.p.skew = 0
		})
	})
}

// Stop stops the timer.
func (t *timer) Stop() bool {
	was := t.on
	t.on = false
	return was
}

// Reset sets it anew.
func (t *timer) Reset(d time.Duration) bool {
	was := t.on
	t.set(d)
	return was
}

// worker is a driver.Worker.
type worker struct {
	p     *peer
	step  func() (time.Duration, bool)
	awake bool // step is to be called, or is at work
	again bool // woken while it was at work
	over  bool
}

// Worker makes a worker whose steps are events.
func (c *clock) Worker(step func() (time.Duration, bool)) driver.Worker {
	return &worker{p: (*peer)(c), step: step}
}

// Wake has step called soon.
func (w *worker) Wake() {
	if w.awake {
		w.again = true
		return
	}
	w.awake = true
	s := w.p.h.s
	w.after(s.upTo(50 * time.Microsecond))
}

func (w *worker) after(d time.Duration) {
	w.p.h.s.after(d, func() {
		w.p.h.awake(func() {
			if w.over || w.p.dead {
				return
			}
			w.again = false
			pause, again := w.step()
			switch {
			case again:
				w.after(pause)
			case w.again:
				w.after(0)
			default:
				w.awake = false
			}
		})
	})
}

// Stop ends the worker.
func (w *worker) Stop() { w.over = true }
