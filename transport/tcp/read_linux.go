package tcp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/transport"
)

// directBudget bounds what one event reads past gnet's buffer, so that a fast
// sender does not starve the other links of its event loop. The poller is
// level-triggered and calls again for the rest.
const directBudget = 4 << 20

// scratchSize is the room for what follows a payload that is read to its place.
const scratchSize = 64 << 10

var errRefused = errors.New("tcp: the event loop did not take the connection")

// enroll gives the connection to an event loop and waits until it has it.
func (l *link) enroll(tc *net.TCPConn) {
	// gnet returns the zone strings of its connections' addresses to a pool of
	// byte slices, although these came from package net, which shares them.
	// The addresses of this connection are ours alone and not used any more.
	for _, a := range []net.Addr{tc.LocalAddr(), tc.RemoteAddr()} {
		a.(*net.TCPAddr).Zone = ""
	}
	_, err := l.t.engine.EnrollContext(tc, l)
	l.mu.Lock()
	lost := l.phase == starting
	l.mu.Unlock()
	if !lost {
		return // OnOpen has run: the link ends with OnClose
	}
	if err == nil {
		err = errRefused
	}
	l.end(fmt.Errorf("tcp: %w", err))
}

// events receives what gnet's event loops have for us. Its methods run on the
// loop of the connection.
type events struct {
	gnet.BuiltinEventEngine
	t *Transport
}

// OnOpen comes before the first OnTraffic and before EnrollContext returns.
func (e *events) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	l := c.Context().(*link)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.phase, l.loop = open, c
	if l.aborting {
		return nil, gnet.Close
	}
	return nil, gnet.None
}

// OnTraffic parses what the loop has read, and reads the rest of a large
// message straight to its place.
func (e *events) OnTraffic(c gnet.Conn) gnet.Action {
	l := c.Context().(*link)
	e.t.dataReady.Add(1)
	b, _ := c.Next(-1) // all of it, always: gnet would keep a copy of the rest
	err := l.in.Feed(b)
	if err == nil {
		err = l.readDirect()
	}
	l.in.Flush()
	if err != nil {
		l.note(err)
		setLinger(l.fd) // safe: the link's own use of fd ends with OnClose
		return gnet.Close
	}
	return gnet.None
}

// OnClose is the end of the connection, whatever the reason.
func (e *events) OnClose(c gnet.Conn, err error) gnet.Action {
	l := c.Context().(*link)
	l.in.Reset()
	switch {
	case err == nil:
		err = transport.ErrClosed
	case errors.Is(err, io.EOF):
		err = io.EOF
	}
	l.end(err)
	return gnet.None
}

// readDirect reads on while a large payload is incomplete: its rest to where it
// belongs, what follows it to a scratch buffer. The end of the stream is left
// for gnet to find.
func (l *link) readDirect() error {
	dst, last := l.in.Space()
	if dst == nil {
		return nil
	}
	scratch := l.t.pool.Get(scratchSize)
	defer scratch.Release()
	for budget := directBudget; dst != nil && budget > 0; dst, last = l.in.Space() {
		var beyond []byte
		if last {
			beyond = scratch.B
		}
		n, errno := l.io.readv(l.fd, dst, beyond)
		if errno != 0 {
			if errno != unix.EAGAIN {
				// The socket reports an error once; gnet will see only an end.
				l.note(os.NewSyscallError("readv", errno))
			}
			return nil
		}
		if n == 0 {
			return nil
		}
		budget -= n
		l.in.Filled(min(n, len(dst)))
		if n > len(dst) {
			if err := l.in.Feed(beyond[:n-len(dst)]); err != nil {
				return err
			}
		}
		if n < len(dst)+len(beyond) {
			return nil // that was all there is
		}
	}
	return nil
}
