package simnet

import (
	"iter"
	"time"
)

// fiber is a stack of its own on which events run, so that one can be suspended in the
// midst of a write while others happen. Only one runs at a time.
type fiber struct {
	next  func() (struct{}, bool)
	yield func(struct{}) bool
	fn    func() // event under way; nil: the fiber is free
	at    *end   // link whose handler is at work; nil: none is
}

// fibers are those of a run.
type fibers struct {
	running   *fiber // the one that runs
	free      []*fiber
	suspended map[*fiber]struct{}
	over      bool // nothing is suspended any more: the run has ended
}

// run calls fn, and returns when fn has, or was suspended.
func (x *fibers) run(fn func()) {
	var f *fiber
	if n := len(x.free); n > 0 {
		f, x.free = x.free[n-1], x.free[:n-1]
	} else {
		f = new(fiber)
		f.next, _ = iter.Pull(func(yield func(struct{}) bool) {
			f.yield = yield
			for f.fn != nil {
				f.fn()
				f.fn = nil
				yield(struct{}{})
			}
		})
	}
	f.fn = fn
	x.resume(f)
}

// resume has a fiber go on.
func (x *fibers) resume(f *fiber) {
	before := x.running
	x.running = f
	f.next()
	x.running = before
	if f.fn == nil {
		x.free = append(x.free, f)
	}
}

// suspend lets d go by before it returns, and as long as h does nothing.
func (s *Sim) suspend(h *host, d time.Duration) {
	x := &s.fibers
	if x.over {
		return
	}
	f := x.running
	if x.suspended == nil {
		x.suspended = make(map[*fiber]struct{})
	}
	x.suspended[f] = struct{}{}
	s.after(d, func() {
		h.awake(func() {
			delete(x.suspended, f)
			x.resume(f)
		})
	})
	f.yield(struct{}{})
}

// at calls a method of e's handler.
func (e *end) at(fn func()) {
	f := e.t.s.fibers.running
	before := f.at
	f.at = e
	fn()
	f.at = before
}

// end has all that is suspended come to its end, and frees the fibers.
func (x *fibers) end() {
	x.over = true
	for len(x.suspended) > 0 {
		for f := range x.suspended {
			delete(x.suspended, f)
			x.resume(f)
		}
	}
	for _, f := range x.free {
		f.next() // there is no event: it returns
	}
	x.free = nil
}
