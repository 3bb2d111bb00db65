package gnetloop

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/transport"
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
	if c.written.Load() == 0 || !c.acquire() {
		return
	}
	defer c.put()
	owed, info := false, transport.TCPInfo{}
	if kept, errno := outq(c.fd); errno == 0 && kept > 0 {
		info, owed = tcpInfo(c.fd)
		owed = owed && unanswered(&info)
	}
	if c.silence.look(time.Now(), owed, info.LastAckRecv, c.e.opts.Silence) {
		c.giveUp()
	}
}

// giveUp ends the connection with a reset. What the peer had sent before is delivered
// first: our TCP has acknowledged it, so the peer does not send it again.
func (c *Conn) giveUp() {
	c.quiet.Store(true)
	c.note(ErrSilent)
	setLinger(c.fd) // the peer, once it is back, learns at its next segment that the connection is gone
	_ = unix.Shutdown(c.fd, unix.SHUT_RD)
}
