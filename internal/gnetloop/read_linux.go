package gnetloop

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/transport"
)

// directBudget bounds what one event reads past gnet's buffer, so that a fast
// sender does not starve the other connections of its event loop. The poller
// is level-triggered and calls again for the rest.
const directBudget = 4 << 20

var errRefused = errors.New("the event loop did not take the connection")

// enroll gives the connection to an event loop and waits until it has it.
func (c *Conn) enroll(tc *net.TCPConn) {
	// gnet returns the zone strings of its connections' addresses to a pool of
	// byte slices, although these came from package net, which shares them.
	// The addresses of this connection are ours alone and not used any more.
	for _, a := range []net.Addr{tc.LocalAddr(), tc.RemoteAddr()} {
		a.(*net.TCPAddr).Zone = ""
	}
	if c.e.opts.Loops != nil {
		c.e.opts.Loops.take(c, tc)
		return
	}
	_, err := c.e.client.EnrollContext(tc, c)
	c.mu.Lock()
	lost := c.phase == starting
	c.mu.Unlock()
	if !lost {
		return // OnOpen has run: the connection ends with OnClose
	}
	if err == nil {
		err = errRefused
	}
	c.end(fmt.Errorf("%s: %w", c.e.opts.Name, err))
}

// events receives what gnet's event loops have for us. Its methods run on the
// loop of the connection.
type events struct {
	gnet.BuiltinEventEngine
	e *Engine
}

// OnOpen comes before the first OnTraffic and before EnrollContext returns.
func (ev *events) OnOpen(gc gnet.Conn) ([]byte, gnet.Action) {
	c, ok := gc.Context().(*Conn)
	if !ok {
		bell := gc.Context().(*doorbell)
		bell.loop = gc.EventLoop()
		bell.ep = epollOf(bell.loop)
		return nil, gnet.None
	}
	b := ev.e.bells[gc.EventLoop()]
	if !c.opened(gnetPlace{gc, b}, b) {
		return nil, gnet.Close
	}
	return nil, gnet.None
}

// place is where an event loop reads from a connection.
type place interface {
	// Close has the event loop end the connection, soon.
	Close() error
	// closeNow ends the connection. It is called on the event loop.
	closeNow()
	// pause takes the connection out of the loop's epoll instance, resume puts it there.
	pause() error
	resume() error
}

// gnetPlace is a connection's place in an event loop of gnet's.
type gnetPlace struct {
	gnet.Conn
	bell *doorbell
}

func (g gnetPlace) closeNow() { _ = g.EventLoop().Close(g.Conn) }

func (g gnetPlace) pause() error {
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(g.bell.ep, unix.EPOLL_CTL_DEL, g.Fd(), nil))
}

func (g gnetPlace) resume() error {
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(g.bell.ep, unix.EPOLL_CTL_ADD, g.Fd(), &unix.EpollEvent{Fd: int32(g.Fd()), Events: unix.EPOLLIN | unix.EPOLLPRI}))
}

// opened follows the arrival at an event loop with doorbell b. It is false if the connection has
// to end.
func (c *Conn) opened(at place, b *doorbell) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.phase, c.loop = open, at
	if c.aborting {
		return false
	}
	if c.bell.Store(b); c.woken.Load() {
		b.ring(c)
	}
	return true
}

// OnTraffic feeds what the loop has read, and reads on what has its place.
func (ev *events) OnTraffic(gc gnet.Conn) gnet.Action {
	b, _ := gc.Next(-1) // all bytes, because gnet would keep a copy of the rest
	c, ok := gc.Context().(*Conn)
	if !ok {
		gc.Context().(*doorbell).answer()
		return gnet.None
	}
	if c.fed(b) != nil {
		return gnet.Close
	}
	// Let those run whom the burst has woken. gnet's poller yields once and then
	// blocks in epoll_wait with the processor it has. Every 61st turn of Go's
	// scheduler that one yield chooses the poller again, and a reader that was just
	// woken waits, where there is one processor, for the runtime's monitor thread:
	// some 200 us. Two yields in a row never both choose the poller.
	runtime.Gosched()
	return gnet.None
}

// fed is what an event loop does with bytes it has read. After an error the connection has to
// be closed at once.
func (c *Conn) fed(b []byte) error {
	c.e.reads.Add(1)
	// What comes may answer what a program has written: a program that reads a region,
	// asks the peer for the next block, and has the block placed there. The order goes
	// through the peer, where the race detector does not see it. The writer has changed
	// life before it wrote (acquire), so this load shows it.
	c.life.Load()
	err := c.h.Feed(b)
	if err == nil {
		err = c.readDirect()
	}
	c.h.Flush()
	if err != nil {
		c.refuse(err)
	}
	return err
}

// OnClose is the end of the connection, whatever the reason.
func (ev *events) OnClose(gc gnet.Conn, err error) gnet.Action {
	c, ok := gc.Context().(*Conn)
	if !ok {
		return gnet.None // the doorbell closes when the loop ends
	}
	switch {
	case err == nil:
		err = transport.ErrClosed
	case errors.Is(err, io.EOF):
		err = io.EOF
	}
	c.end(err)
	return gnet.None
}

// refuse prepares for the reset of a connection whose handler returned err.
func (c *Conn) refuse(err error) {
	c.note(err)
	setLinger(c.fd) // fd is valid: the connection's own use of fd ends with OnClose
}

// readDirect reads on while the handler has a place for what comes next: to
// that place, and what may follow it to a scratch buffer. The end of the stream
// is left for gnet to find.
func (c *Conn) readDirect() error {
	var scratch *buf.Buf
	defer func() {
		if scratch != nil {
			scratch.Release()
		}
	}()
	for budget := directBudget; budget > 0 && !c.paused; {
		dst, beyond := c.h.Space()
		if dst == nil {
			return nil
		}
		var rest []byte
		if beyond > 0 {
			if scratch == nil {
				scratch = c.e.pool.Get(MaxBeyond)
			}
			rest = scratch.B[:min(beyond, MaxBeyond)]
		}
		n, errno := c.io.readv(c.fd, dst, rest)
		c.h.Filled(min(n, len(dst)))
		if errno != 0 && errno != unix.EAGAIN {
			// The socket reports an error once; gnet will see only an end.
			c.note(os.NewSyscallError("readv", errno))
		}
		if n > len(dst) {
			if err := c.h.Feed(rest[:n-len(dst)]); err != nil {
				return err
			}
		}
		if n == 0 || n < len(dst)+len(rest) {
			return nil // no more bytes are there
		}
		budget -= n
	}
	return nil
}
