package gnetloop

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/transport"
)

// Close ends the connection as transport.Link.Close does. A connection that
// was never started is just closed. Calling it again only makes it harder.
func (c *Conn) Close(mode transport.CloseMode) { c.shut(mode, transport.ErrClosed) }

// Fail resets the connection as Close(transport.Abort) does, and cause is what
// Closed is told, unless there was a reason before.
func (c *Conn) Fail(cause error) { c.shut(transport.Abort, cause) }

func (c *Conn) shut(mode transport.CloseMode, cause error) {
	if !c.acquire() {
		return
	}
	defer c.put()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.quiet.Store(true)
	switch {
	case c.phase == ended || c.aborting:
	case c.phase == fresh:
		c.phase = ended
		_ = c.tcp.Close()
		c.tcp = nil
		c.life.Or(ending)
		c.life.Add(-1) // Not the last use: this method's own use remains.
	case mode == transport.Drain:
		if c.draining {
			return
		}
		c.draining = true
		_ = unix.Shutdown(c.fd, unix.SHUT_WR)
		c.timer = time.AfterFunc(c.e.opts.DrainTimeout, c.undrained)
	default:
		c.aborting = true
		if c.cause == nil {
			c.cause = cause
		}
		setLinger(c.fd)
		if c.loop != nil {
			// Asynchronous, and harmless if the loop closes it first. The use of
			// fd keeps the engine from stopping the loop meanwhile.
			_ = c.loop.Close()
		}
	}
}

// fail ends the connection after a system call on it has failed. What can
// still be read is delivered first: the event loop reads until the end of the
// stream.
func (c *Conn) fail(cause error) {
	c.quiet.Store(true)
	c.note(cause)
	_ = unix.Shutdown(c.fd, unix.SHUT_RDWR)
}

// note keeps the first reason for the connection to end.
func (c *Conn) note(cause error) {
	c.mu.Lock()
	if c.cause == nil {
		c.cause = cause
	}
	c.mu.Unlock()
}
