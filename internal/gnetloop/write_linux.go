package gnetloop

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/transport"
)

// Writev writes from the caller's goroutine straight to the socket: as many
// leading bytes of bufs as it takes without blocking. It returns their number.
// Less than all of them with a nil error means that the socket is full, and
// Handler.Writable follows. Of more than transport.MaxSlices slices only so
// many are looked at.
func (c *Conn) Writev(bufs [][]byte) (int, error) {
	if !c.acquire() {
		return 0, transport.ErrClosed
	}
	n, err := c.writev(bufs)
	c.put()
	return n, err
}

func (c *Conn) writev(bufs [][]byte) (int, error) {
	if c.quiet.Load() {
		return 0, transport.ErrClosed
	}
	n, full, errno := c.io.writev(c.fd, bufs)
	if n > 0 {
		c.written.Add(uint64(n))
	}
	switch {
	case errno != 0 && errno != unix.EAGAIN:
		if c.quiet.Load() {
			return 0, transport.ErrClosed // Close was faster
		}
		err := os.NewSyscallError("writev", errno)
		c.fail(err)
		return 0, err
	case full:
		c.e.full.Add(1)
		if err := c.e.poll.arm(c); err != nil {
			c.fail(err)
			return n, err
		}
	}
	return n, nil
}

// Written returns the bytes that Writev has taken so far.
func (c *Conn) Written() uint64 { return c.written.Load() }

// Acked returns the bytes written minus those the socket still keeps
// (SIOCOUTQ), which are the ones the peer's TCP has not acknowledged. After we
// have ended our direction one byte too few is reported, for the FIN.
func (c *Conn) Acked() uint64 {
	if !c.acquire() {
		return c.acked.Load()
	}
	n := c.measure()
	c.put()
	return n
}

// measure takes a reading. Written is read first: what is written meanwhile
// then makes the result smaller, never larger.
func (c *Conn) measure() uint64 {
	written := c.written.Load()
	kept, errno := outq(c.fd)
	if errno == 0 && kept < written {
		n := written - kept
		for old := c.acked.Load(); n > old && !c.acked.CompareAndSwap(old, n); old = c.acked.Load() {
		}
	}
	return c.acked.Load()
}
