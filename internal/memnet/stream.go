package memnet

import (
	"io"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/internal/gnetloop"
	"github.com/rds-go/rds/transport"
)

// directBudget bounds what one turn reads to the places that Space returns.
const directBudget = 4 << 20

type phase uint8

const (
	fresh phase = iota // not started
	open               // belongs to an event loop
	ended              // Closed is due, or has been called
)

// stream is a connection of a stack. Where nothing else is said the network's lock guards a
// field.
type stream struct {
	e     *stack
	s     *socket
	loop  *loop
	here  bool
	woken atomic.Bool // Handler.Wake is due
	h     gnetloop.Handler

	phase    phase
	queued   bool // in loop.queue
	users    int  // the connection itself until it ends, and who calls Writable
	quiet    bool // nothing may be written
	draining bool
	aborting bool
	refused  bool // the handler has returned an error
	paused   bool // written by the event loop
	cause    error
	timer    *time.Timer // bounds draining
	over     bool        // Closed is called or has been
	last     uint64      // if over: what Acked returns
}

// Start gives the connection to its event loop.
func (c *stream) Start(h gnetloop.Handler) error {
	c.e.n.mu.Lock()
	defer c.e.n.mu.Unlock()
	if c.phase != fresh {
		return transport.ErrClosed
	}
	c.phase, c.h, c.quiet = open, h, false
	c.loop.add(c)
	return nil
}

func (c *stream) readable() { c.look() }

func (c *stream) writable() {
	if c.phase == open {
		c.e.writables = append(c.e.writables, c)
		c.e.room.Signal()
	}
}

// look has the event loop look at the connection.
func (c *stream) look() {
	if c.phase == open {
		c.loop.add(c)
	}
}

// serve is a turn of the event loop. The caller holds the network's lock, which serve unlocks
// where it calls the handler.
func (c *stream) serve(buf []byte) {
	n := c.e.n
	switch {
	case c.phase != open:
		return
	case c.aborting:
		c.end(transport.ErrClosed)
		return
	}
	if c.woken.Swap(false) {
		n.mu.Unlock()
		err := c.h.Wake()
		c.h.Flush()
		n.mu.Lock()
		if err != nil {
			c.refuse(err)
			return
		}
	}
	if c.paused {
		return
	}
	k := c.s.take(buf)
	if k == 0 {
		switch {
		case c.s.eof:
			c.end(io.EOF)
		case c.s.err != nil:
			c.end(os.NewSyscallError("read", c.s.err))
		}
		return
	}
	c.e.stats.Reads++
	n.mu.Unlock()
	err := c.h.Feed(buf[:k])
	if err == nil {
		err = c.readDirect()
	}
	c.h.Flush()
	n.mu.Lock()
	if err != nil {
		c.refuse(err)
	} else if c.s.in.len() > 0 || c.s.eof || c.s.err != nil {
		c.look()
	}
}

// readDirect reads to the handler's places, and what may follow them.
func (c *stream) readDirect() error {
	for budget := directBudget; budget > 0 && !c.paused; {
		dst, beyond := c.h.Space()
		if dst == nil {
			return nil
		}
		var rest []byte
		if beyond > 0 {
			rest = make([]byte, min(beyond, gnetloop.MaxBeyond))
		}
		c.e.n.mu.Lock()
		n, more := c.s.take(dst), 0
		if n == len(dst) && len(rest) > 0 {
			more = c.s.take(rest)
		}
		c.e.n.mu.Unlock()
		c.h.Filled(n)
		if more > 0 {
			if err := c.h.Feed(rest[:more]); err != nil {
				return err
			}
		}
		if n+more == 0 || n+more < len(dst)+len(rest) {
			return nil
		}
		budget -= n + more
	}
	return nil
}

// refuse ends the connection with a reset, because the handler has returned an error.
func (c *stream) refuse(err error) {
	c.note(err)
	c.refused = true
	c.end(err)
}

func (c *stream) note(cause error) {
	if c.cause == nil {
		c.cause = cause
	}
}

// end is the end of a connection that was started. The caller holds the network's lock, which
// is unlocked meanwhile.
func (c *stream) end(cause error) {
	c.note(cause)
	c.phase, c.quiet = ended, true
	if c.timer != nil {
		c.timer.Stop()
	}
	c.leave()
}

// leave ends a use of the connection. The last one calls Closed, and only then is the socket
// closed, as gnetloop does. The caller holds the network's lock, which is unlocked meanwhile.
func (c *stream) leave() {
	if c.users--; c.users > 0 {
		return
	}
	c.over, c.last = true, c.s.acked
	c.e.n.mu.Unlock()
	c.h.Closed(c.cause)
	c.e.n.mu.Lock()
	if c.aborting || c.refused {
		c.s.reset()
	} else {
		c.s.close()
	}
	c.forget()
}

// forget ends the stack's care for the connection.
func (c *stream) forget() {
	c.e.n.run()
	delete(c.e.conns, c)
	c.e.wg.Done()
}

// Writev takes as many leading bytes as the send buffer has room for.
func (c *stream) Writev(bufs [][]byte) (int, error) {
	c.e.n.mu.Lock()
	defer c.e.n.mu.Unlock()
	if c.quiet {
		return 0, transport.ErrClosed
	}
	short := len(bufs) > transport.MaxSlices
	total := 0
	for _, b := range bufs[:min(len(bufs), transport.MaxSlices)] {
		n := c.s.write(b)
		total += n
		if n < len(b) {
			short = true
			break
		}
	}
	if c.s.err != nil {
		err := os.NewSyscallError("writev", c.s.err)
		c.note(err)
		c.quiet = true
		c.look()
		return 0, err
	}
	if short {
		c.e.stats.Full++
		c.s.full = true
		c.s.tellWritable()
	}
	return total, nil
}

// Written returns the bytes that Writev has taken so far.
func (c *stream) Written() uint64 {
	c.e.n.mu.Lock()
	defer c.e.n.mu.Unlock()
	return c.s.written
}

// Acked returns the bytes that the peer has acknowledged.
func (c *stream) Acked() uint64 {
	c.e.n.mu.Lock()
	defer c.e.n.mu.Unlock()
	if c.over {
		return c.last
	}
	return c.s.acked
}

// Wake has the handler's Wake called on the event loop.
func (c *stream) Wake() {
	if c.woken.Swap(true) {
		return
	}
	c.e.n.mu.Lock()
	defer c.e.n.mu.Unlock()
	c.look()
}

// Pause stops reading. It is called on the event loop.
func (c *stream) Pause() {
	c.e.n.mu.Lock()
	defer c.e.n.mu.Unlock()
	if c.phase == open && !c.aborting {
		c.paused = true
	}
}

// Resume goes on reading. It is called on the event loop.
func (c *stream) Resume() {
	c.e.n.mu.Lock()
	defer c.e.n.mu.Unlock()
	if !c.paused || c.phase != open || c.aborting {
		return
	}
	c.paused = false
	if c.draining {
		c.timer.Reset(c.e.opts.DrainTimeout)
	}
	c.look()
}

// Close ends the connection.
func (c *stream) Close(mode transport.CloseMode) {
	c.e.n.mu.Lock()
	defer c.e.n.mu.Unlock()
	c.shut(mode, transport.ErrClosed)
}

func (c *stream) shut(mode transport.CloseMode, cause error) {
	c.quiet = true
	switch {
	case c.phase == ended || c.aborting:
	case c.phase == fresh:
		c.phase = ended
		c.s.close()
		c.forget()
	case mode == transport.Drain:
		if c.draining {
			return
		}
		c.draining = true
		c.s.shutdown()
		c.e.n.run()
		c.timer = time.AfterFunc(c.e.opts.DrainTimeout, c.undrained)
	default:
		c.aborting = true
		c.note(cause)
		c.look()
	}
}

// undrained is the end of the time for draining.
func (c *stream) undrained() {
	c.e.n.mu.Lock()
	defer c.e.n.mu.Unlock()
	if c.paused && !c.aborting {
		c.timer.Reset(c.e.opts.DrainTimeout)
		return
	}
	c.shut(transport.Abort, transport.ErrDrainTimeout)
}

// Settled does nothing: connections that are not settled have no bound.
func (c *stream) Settled() {}

// Here tells whether both addresses are those of one host.
func (c *stream) Here() bool { return c.here }

// LocalAddr returns our end.
func (c *stream) LocalAddr() netip.AddrPort { return c.s.local }

// RemoteAddr returns the peer's end.
func (c *stream) RemoteAddr() netip.AddrPort { return c.s.remote }

// MSS returns how many bytes a segment holds, 0 when the connection has ended.
func (c *stream) MSS() int {
	c.e.n.mu.Lock()
	defer c.e.n.mu.Unlock()
	return c.mss()
}

func (c *stream) mss() int {
	switch {
	case c.phase == ended:
		return 0
	case c.here:
		return mssHere
	}
	return mssThere
}

// TCPInfo tells what TCP_INFO would; false when the connection has ended.
func (c *stream) TCPInfo() (transport.TCPInfo, bool) {
	c.e.n.mu.Lock()
	defer c.e.n.mu.Unlock()
	if c.phase == ended {
		return transport.TCPInfo{}, false
	}
	rtt, mss := 2*c.e.n.latency, c.mss()
	return transport.TCPInfo{
		RTT: rtt, MinRTT: rtt, RTO: rtt + 200*time.Millisecond, Cwnd: 10, MSS: uint32(mss),
		Unacked: uint32((int(c.s.sent-c.s.acked) + mss - 1) / mss), NotSent: uint32(c.s.unsent.len()), SendWindow: uint32(c.s.most - c.s.acked),
	}, true
}
