package tcp

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/transport"
)

// Close ends the link, see transport.Link. A link that was never started is
// just closed.
func (l *link) Close(mode transport.CloseMode) { l.shut(mode, transport.ErrClosed) }

func (l *link) shut(mode transport.CloseMode, cause error) {
	if !l.acquire() {
		return
	}
	defer l.put()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.quiet.Store(true)
	switch {
	case l.phase == ended || l.aborting:
	case l.phase == fresh:
		l.phase = ended
		_ = l.conn.Close()
		l.conn = nil
		l.life.Or(ending)
		l.life.Add(-1) // not the last: this method's own use remains
	case mode == transport.Drain:
		if l.draining {
			return
		}
		l.draining = true
		_ = unix.Shutdown(l.fd, unix.SHUT_WR)
		l.timer = time.AfterFunc(l.t.opts.DrainTimeout, func() {
			l.shut(transport.Abort, transport.ErrDrainTimeout)
		})
	default:
		l.aborting = true
		if l.cause == nil {
			l.cause = cause
		}
		setLinger(l.fd)
		if l.loop != nil {
			// Asynchronous, and harmless if the loop closes it first. The use of
			// fd keeps the transport from stopping the loop meanwhile.
			_ = l.loop.Close()
		}
	}
}

// fail ends the link after a system call on it has failed. What can still be
// read is delivered first: the event loop reads until the end of the stream.
func (l *link) fail(cause error) {
	l.quiet.Store(true)
	l.note(cause)
	_ = unix.Shutdown(l.fd, unix.SHUT_RDWR)
}

// note keeps the first reason for the link to end.
func (l *link) note(cause error) {
	l.mu.Lock()
	if l.cause == nil {
		l.cause = cause
	}
	l.mu.Unlock()
}
