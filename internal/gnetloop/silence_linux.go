package gnetloop

import (
	"time"
)

// watchSilenceLocked has lookForSilence called, silenceLooks times in Options.Silence,
// as long as there are connections.
func (e *Engine) watchSilenceLocked() {
	d := e.opts.patience() / silenceLooks
	switch {
	case e.closed || e.looking || len(e.conns) == 0:
	case e.looks == nil:
		e.looks = time.AfterFunc(d, e.lookForSilence)
	default:
		e.looks.Reset(d)
	}
}

func (e *Engine) lookForSilence() {
	e.mu.Lock()
	conns := keys(e.conns)
	e.looking = true
	e.mu.Unlock()
	for _, c := range conns {
		c.lookForSilence()
	}
	e.mu.Lock()
	e.looking = false
	e.watchSilenceLocked()
	e.mu.Unlock()
}

func (e *Engine) stopWatchingSilence() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.looks != nil {
		e.looks.Stop()
	}
}

// lookForSilence ends the connection if the peer has been silent. It is called by one
// goroutine at a time.
func (c *Conn) lookForSilence() {
	if !c.acquire() {
		return
	}
	defer c.put()
	kept, errno := outq(c.fd)
	unread, errno2 := inq(c.fd)
	info, ok := tcpInfo(c.fd)
	if errno != 0 || errno2 != 0 || !ok {
		return
	}
	if lax := unread > 0; lax != c.lax {
		if c.lax = lax; lax {
			boundRTO(c.fd, rtoKernels)
		} else {
			boundRTO(c.fd, c.e.opts.rtoMax())
		}
	}
	if c.unfinished(time.Now(), unread > 0) {
		c.giveUp(ErrUnfinished)
		return
	}
	if c.e.opts.Silence < 0 {
		return
	}
	owed, limit := c.e.opts.owes(kept > 0, unread > 0, &info)
	if c.silence.look(time.Now(), owed, info.LastAckRecv, limit) {
		c.giveUp(errSilent)
	}
}

// unfinished tells whether the peer has left a message unfinished for too long.
func (c *Conn) unfinished(now time.Time, unread bool) bool {
	c.mu.Lock()
	paused := c.paused
	var h Beginner
	if c.phase == open {
		h, _ = c.h.(Beginner)
	}
	c.mu.Unlock()
	if h == nil {
		return false
	}
	number, left, known := h.Begun()
	limit := c.e.opts.patience()
	if known {
		limit = max(limit, knownPatience)
	}
	return c.begun.look(now, number, left, paused, unread, limit)
}

// giveUp ends the connection with a reset, by which a peer that comes back just then
// learns of it. What the peer had sent before is delivered first: our TCP has
// acknowledged it, so the peer does not send it again.
func (c *Conn) giveUp(cause error) {
	setLinger(c.fd)
	c.fail(cause)
}
