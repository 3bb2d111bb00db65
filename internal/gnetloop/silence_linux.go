package gnetloop

import (
	"time"
)

// watchSilenceLocked has lookForSilence called, silenceLooks times in Options.Silence,
// as long as there are connections.
func (e *Engine) watchSilenceLocked() {
	d := e.opts.Silence / silenceLooks
	switch {
	case d <= 0 || e.closed || e.looking || len(e.conns) == 0:
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
	owed, limit := c.e.opts.owes(kept > 0, unread > 0, &info)
	if c.silence.look(time.Now(), owed, info.LastAckRecv, limit) {
		c.giveUp()
	}
}

// giveUp ends the connection with a reset, by which a peer that comes back just then
// learns of it. What the peer had sent before is delivered first: our TCP has
// acknowledged it, so the peer does not send it again.
func (c *Conn) giveUp() {
	setLinger(c.fd)
	c.fail(ErrSilent)
}
