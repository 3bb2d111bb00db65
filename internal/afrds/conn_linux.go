package afrds

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// afRDS is AF_RDS, the address family of RDS sockets.
const afRDS = 21

// Limits of the timer that retries a send to a congested port.
const (
	minCongestionDelay = time.Millisecond
	maxCongestionDelay = 32 * time.Millisecond
)

// Conn is one AF_RDS socket.
type Conn struct {
	file   *os.File
	raw    syscall.RawConn
	closed atomic.Bool
	done   chan struct{} // closed by Close
}

// Available returns nil where RDS sockets can be opened, else an error that is
// ErrNotAvailable and wraps the errno. Asking may make the kernel load its
// module.
func Available() error {
	c, err := Open()
	if err != nil {
		return err
	}
	return c.Close()
}

// Open makes a socket that is not bound yet, for what must be set before Bind.
func Open() (*Conn, error) {
	fd, err := unix.Socket(afRDS, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		err = os.NewSyscallError("socket", err)
		if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.ESOCKTNOSUPPORT) || errors.Is(err, unix.EPROTONOSUPPORT) {
			return nil, &notAvailableError{err}
		}
		return nil, err
	}
	return newConn(fd)
}

// newConn gives a non-blocking descriptor to the poller.
func newConn(fd int) (*Conn, error) {
	file := os.NewFile(uintptr(fd), "rds")
	raw, err := file.SyscallConn()
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &Conn{file: file, raw: raw, done: make(chan struct{})}, nil
}

// Listen makes a socket bound to one of this host's addresses. Port 0 lets the
// kernel choose; see LocalAddrPort.
func Listen(addr netip.AddrPort) (*Conn, error) {
	c, err := Open()
	if err != nil {
		return nil, err
	}
	if err := c.Bind(addr); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// Close frees the socket and ends every call that waits on it. Messages sent
// but not acknowledged are withdrawn: net/rds/af_rds.c, rds_release.
func (c *Conn) Close() error {
	if c.closed.Swap(true) {
		return net.ErrClosed
	}
	close(c.done)
	return c.file.Close()
}

// SetDeadline sets the deadline of sends and receives; zero is none.
func (c *Conn) SetDeadline(t time.Time) error { return c.fix(c.file.SetDeadline(t)) }

// SetReadDeadline sets the deadline of receives; zero is none.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.fix(c.file.SetReadDeadline(t)) }

// SetWriteDeadline sets the deadline of sends; zero is none.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.fix(c.file.SetWriteDeadline(t)) }

// SendTo sends b as one message to to and returns its length. It waits while
// the send buffer is full or the port congested; with MsgDontWait it returns
// EAGAIN or ENOBUFS instead. The zero address means the one given to Connect.
// It does not allocate.
func (c *Conn) SendTo(b []byte, to netip.AddrPort, flags int) (int, error) {
	op := getOp()
	defer op.put()
	if err := op.prepareSend(b, to, flags); err != nil {
		return 0, err
	}
	if flags&MsgDontWait != 0 {
		return c.once(op, "sendmsg", op.sendOnce)
	}
	delay := minCongestionDelay
	for {
		n, err := c.wait(op, "sendmsg", c.raw.Write, op.send)
		if !errors.Is(err, unix.ENOBUFS) {
			return n, err
		}
		if err := c.pause(delay); err != nil {
			return 0, err
		}
		delay = min(2*delay, maxCongestionDelay)
	}
}

// RecvFrom waits for a message, completions or congestion news and puts the
// message into b. With MsgDontWait it returns EAGAIN when there is none. It
// allocates only for completions and for IPv6 zones.
func (c *Conn) RecvFrom(b []byte, flags int) (Received, error) {
	op := getOp()
	defer op.put()
	op.prepareRecv(b, flags)
	var err error
	if flags&MsgDontWait != 0 {
		_, err = c.once(op, "recvmsg", op.recvOnce)
	} else {
		_, err = c.wait(op, "recvmsg", c.raw.Read, op.recv)
	}
	if err != nil {
		return Received{}, err
	}
	return op.received()
}

// Poll returns which of the events hold now, PollErr included.
func (c *Conn) Poll(events int16) (int16, error) {
	var revents int16
	err := c.control("poll", func(fd int) error {
		fds := [1]unix.PollFd{{Fd: int32(fd), Events: events}}
		_, err := unix.Poll(fds[:], 0)
		revents = fds[0].Revents
		return err
	})
	return revents, err
}

// wait runs a call that may have to wait for the poller and returns its result.
func (c *Conn) wait(op *op, name string, run func(func(uintptr) bool) error, call func(uintptr) bool) (int, error) {
	if err := run(call); err != nil {
		return 0, c.fix(err)
	}
	return op.result(name)
}

// once runs a call that does not wait, beside others that do.
func (c *Conn) once(op *op, name string, call func(uintptr)) (int, error) {
	if err := c.raw.Control(call); err != nil {
		return 0, c.fix(err)
	}
	return op.result(name)
}

// control runs a call on the descriptor, again when a signal interrupts it.
func (c *Conn) control(name string, call func(fd int) error) error {
	var err error
	if e := c.raw.Control(func(fd uintptr) {
		for err = call(int(fd)); err == unix.EINTR; err = call(int(fd)) {
		}
	}); e != nil {
		return c.fix(e)
	}
	return os.NewSyscallError(name, err)
}

// pause waits between two attempts to send to a congested port. The attempt
// that follows sees deadlines.
func (c *Conn) pause(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-c.done:
		return net.ErrClosed
	}
}

// fix gives errors of a closed file the name they have for sockets.
func (c *Conn) fix(err error) error {
	if err != nil && c.closed.Load() {
		return net.ErrClosed
	}
	return err
}
