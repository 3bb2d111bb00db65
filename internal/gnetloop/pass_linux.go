package gnetloop

import (
	"sync"
	"time"
)

// pausing is one pause of a listener.
type pausing struct {
	parked chan struct{} // closed by run when it accepts nothing any more
	once   sync.Once     // closes parked
	resume chan struct{} // closed when the pause is over
}

// began waits until connections may be accepted, and tells whether they may.
func (ln *Listener) began() bool {
	in := ln.e.opts.Inherited
	if in == nil {
		return true
	}
	select {
	case <-in.Begin:
		return true
	case <-ln.ctx.Done():
		return false
	}
}

// rest waits for the end of a pause.
func (ln *Listener) rest() {
	hold := ln.hold.Load()
	if hold == nil {
		return
	}
	hold.once.Do(func() { close(hold.parked) })
	select {
	case <-hold.resume:
	case <-ln.ctx.Done():
	}
}

// Pause has all listeners accept nothing until Resume. It returns when every connection
// that was accepted has been offered.
func (e *Engine) Pause() {
	e.mu.Lock()
	listeners := keys(e.listeners)
	e.mu.Unlock()
	for _, ln := range listeners {
		ln.hold.CompareAndSwap(nil, &pausing{parked: make(chan struct{}), resume: make(chan struct{})})
		_ = ln.ln.SetDeadline(time.Unix(1, 0)) // a call of run that waits returns
	}
	for _, ln := range listeners {
		if hold := ln.hold.Load(); hold != nil {
			select {
			case <-hold.parked:
			case <-ln.done:
			}
		}
	}
}

// Resume ends a Pause.
func (e *Engine) Resume() {
	e.mu.Lock()
	listeners := keys(e.listeners)
	e.mu.Unlock()
	for _, ln := range listeners {
		_ = ln.ln.SetDeadline(time.Time{})
		if hold := ln.hold.Swap(nil); hold != nil {
			close(hold.resume)
		}
	}
}

// Listening returns the listening sockets, to be passed to another process.
func (e *Engine) Listening() ([]Listening, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []Listening
	for ln := range e.listeners {
		f, err := ln.ln.File()
		if err != nil {
			for _, l := range out {
				_ = l.File.Close()
			}
			return nil, err
		}
		out = append(out, Listening{Local: ln.Addr(), File: f})
	}
	return out, nil
}
