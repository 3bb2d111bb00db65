package ipc

import (
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/lockorder"
)

// pair makes both ends of a connection.
func (p *InProcess) pair() (a, b *Conn, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	if a, err = OpenConn(os.NewFile(uintptr(fds[0]), "in-process")); err != nil {
		_ = unix.Close(fds[1])
		return nil, nil, err
	}
	if b, err = OpenConn(os.NewFile(uintptr(fds[1]), "in-process")); err != nil {
		_ = a.Close()
		return nil, nil, err
	}
	to, from := newDirection(), newDirection()
	for _, e := range [...]struct {
		c       *Conn
		in, out *direction
	}{{a, from, to}, {b, to, from}} {
		e.c.c, e.c.place = &inProcessSocket{controlSocket: e.c.c, in: e.in, out: e.out}, p
	}
	return a, b, nil
}

// direction is one of the two of a connection.
type direction struct{ readable, writable chan struct{} } // of cap 1

func newDirection() *direction { return &direction{make(chan struct{}, 1), make(chan struct{}, 1)} }

func (d *direction) poke() {
	poke(d.readable)
	poke(d.writable)
}

// inProcessSocket is a controlSocket whose other end is one, too.
type inProcessSocket struct {
	controlSocket
	in, out *direction

	mu          lockorder.Mutex[inProcessSocket]
	inBy, outBy time.Time // deadlines
}

// do calls f, which does not wait, until its error is another one than EAGAIN or the deadline
// has passed.
func (s *inProcessSocket) do(by *time.Time, c chan struct{}, f func(fd int) error) error {
	rc, err := s.SyscallConn()
	if err != nil {
		return err
	}
	for {
		s.mu.Lock()
		until := *by
		s.mu.Unlock()
		var never <-chan time.Time
		if !until.IsZero() {
			left := time.Until(until)
			if left <= 0 {
				return os.ErrDeadlineExceeded
			}
			t := time.NewTimer(left)
			defer t.Stop()
			never = t.C
		}
		if e := rc.Control(func(fd uintptr) { err = f(int(fd)) }); e != nil {
			return e
		}
		if err != unix.EAGAIN && err != unix.EINTR {
			return err
		}
		select {
		case <-c:
		case <-never:
		}
	}
}

func (s *inProcessSocket) WriteMsgUnix(b, oob []byte, _ *net.UnixAddr) (int, int, error) {
	err := s.do(&s.outBy, s.out.writable, func(fd int) error {
		return unix.Sendmsg(fd, b, oob, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	})
	poke(s.out.readable)
	return len(b), len(oob), os.NewSyscallError("sendmsg", err)
}

func (s *inProcessSocket) ReadMsgUnix(b, oob []byte) (n, oobn, flags int, _ *net.UnixAddr, err error) {
	err = s.do(&s.inBy, s.in.readable, func(fd int) (err error) {
		n, oobn, flags, _, err = unix.Recvmsg(fd, b, oob, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		return err
	})
	poke(s.in.writable)
	return max(n, 0), oobn, flags, nil, os.NewSyscallError("recvmsg", err)
}

func (s *inProcessSocket) Read(b []byte) (int, error) {
	n, _, _, _, err := s.ReadMsgUnix(b, nil)
	return n, err
}

func (s *inProcessSocket) setDeadline(t time.Time, in, out bool) error {
	s.mu.Lock()
	if in {
		s.inBy = t
	}
	if out {
		s.outBy = t
	}
	s.mu.Unlock()
	poke(s.in.readable)
	poke(s.out.writable)
	return nil
}

func (s *inProcessSocket) SetDeadline(t time.Time) error      { return s.setDeadline(t, true, true) }
func (s *inProcessSocket) SetReadDeadline(t time.Time) error  { return s.setDeadline(t, true, false) }
func (s *inProcessSocket) SetWriteDeadline(t time.Time) error { return s.setDeadline(t, false, true) }

// Close shuts the connection down first: a program that is being started has all descriptors until it runs, so
// that the other end, which is woken here, would not find the end yet.
func (s *inProcessSocket) Close() error {
	if rc, err := s.SyscallConn(); err == nil {
		_ = rc.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
	}
	err := s.controlSocket.Close()
	s.in.poke()
	s.out.poke()
	return err
}

// note has who waits at a socket of a doorbell of this process wait for a channel instead.
func (p *InProcess) note(wake chan struct{}, fds ...uintptr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, fd := range fds {
		p.wakes[inode(fd)] = wake
	}
}

// wakeOf is the channel of a socket of a doorbell.
func (p *InProcess) wakeOf(rc syscall.RawConn) (wake chan struct{}) {
	_ = rc.Control(func(fd uintptr) {
		p.mu.Lock()
		defer p.mu.Unlock()
		wake = p.wakes[inode(fd)]
	})
	return wake
}

func inode(fd uintptr) uint64 {
	var st unix.Stat_t
	_ = unix.Fstat(int(fd), &st) // a descriptor of ours, which is open
	return st.Ino
}

// NewBell makes a doorbell for the connection's application, whose ear it is.
func (c *Conn) NewBell() (*Bell, *Ear, error) {
	b, e, err := NewBell()
	if c.place != nil && err == nil {
		b.wake = make(chan struct{}, 1)
		e.wake = b.wake
		_ = e.rc.Control(func(fd uintptr) { c.place.note(e.wake, fd) })
	}
	return b, e, err
}

// NewWatchedBell makes a doorbell for the daemon's event loop.
func (c *Conn) NewWatchedBell() (*Bell, *WatchedEar, error) {
	b, e, err := NewWatchedBell()
	if c.place != nil && err == nil {
		b.wake = c.place.loop
		_ = b.rc.Control(func(fd uintptr) { c.place.note(b.wake, fd) })
	}
	return b, e, err
}

// OpenBell is OpenBell of a descriptor that came over the connection.
func (c *Conn) OpenBell(f *os.File) (*Bell, error) {
	b, err := OpenBell(f)
	if c.place != nil && err == nil {
		b.wake = c.place.wakeOf(b.rc)
	}
	return b, err
}

// OpenEar is OpenEar of a descriptor that came over the connection.
func (c *Conn) OpenEar(f *os.File) (*Ear, error) {
	e, err := OpenEar(f)
	if c.place != nil && err == nil {
		e.wake = c.place.wakeOf(e.rc)
	}
	return e, err
}
