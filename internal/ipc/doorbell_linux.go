package ipc

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Bell is the end of a doorbell that is rung, Ear the one that is waited at.
//
// It is a pair of stream sockets, one end of which only writes. Of the cheaper
// means none lets a daemon ring for an application it does not trust without
// the danger of standing still in a system call:
//
//   - An eventfd is one open file that both sides share. The application can
//     clear its O_NONBLOCK and fill the counter; the daemon's write then waits.
//     So it is with a pipe's writing end, where both sides ring the same bell.
//   - The ends of a pipe are separate files, but reading holds the pipe's mutex
//     while it copies to memory of the reader's choice. If that lies on a FUSE
//     file, or is served by userfaultfd, the daemon's write waits for the
//     application to serve the fault, and not even a signal ends that.
//   - A futex in the shared memory cannot be waited for by Go's poller.
//
// A socket's sender copies and queues under locks that no reader's fault is
// taken under, and each call says that it does not wait.
//
// So the calls are made without telling the Go scheduler: a process in which
// everybody sleeps would have its monitor thread woken by each first system call,
// twice for every message that finds it so (sysmon, a tenth of what is fetched
// through a daemon).
type Bell struct {
	f    *os.File
	rc   syscall.RawConn
	wake chan struct{} // of cap 1: where the waiting end of the same process waits; nil: in the system
}

// Ear is the waiting end of a Bell.
type Ear struct {
	f      *os.File
	rc     syscall.RawConn
	wake   chan struct{} // see Bell
	roused atomic.Bool   // Rouse was called; used only with wake

	// For one Wait at a time.
	hear  func(fd uintptr) bool // listen, made once
	b     [64]byte              // bytes read
	n     int                   // number of bytes read, 0 at the end
	errno syscall.Errno
}

// bellBuffer is the send buffer of a bell: the kernel raises it to its minimum,
// a handful of rings that nobody has answered. Who does not answer holds no
// more of the daemon's memory.
const bellBuffer = 1

// NewBell makes a doorbell.
func NewBell() (*Bell, *Ear, error) {
	p, err := bellPair()
	if err != nil {
		return nil, nil, err
	}
	bellFile := os.NewFile(uintptr(p[1]), "bell")
	ear, err := OpenEar(os.NewFile(uintptr(p[0]), "ear"))
	if err != nil {
		bellFile.Close()
		return nil, nil, err
	}
	bell, err := OpenBell(bellFile)
	if err != nil {
		ear.Close()
		return nil, nil, err
	}
	return bell, ear, nil
}

// bellPair makes the descriptors of an ear and a bell.
func bellPair() (p [2]int, err error) {
	if p, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return p, os.NewSyscallError("socketpair", err)
	}
	if err := setupBell(p[0], p[1]); err != nil {
		unix.Close(p[0])
		unix.Close(p[1])
		return p, err
	}
	return p, nil
}

func setupBell(ear, bell int) error {
	// Only the ear is non-blocking, which has Go's poller watch it. The poller
	// would be woken at the bell with every byte the other side reads.
	if err := unix.SetNonblock(ear, true); err != nil {
		return os.NewSyscallError("fcntl O_NONBLOCK", err)
	}
	if err := unix.SetsockoptInt(bell, unix.SOL_SOCKET, unix.SO_SNDBUF, bellBuffer); err != nil {
		return os.NewSyscallError("setsockopt SO_SNDBUF", err)
	}
	// Nothing, and no descriptor, can be sent to the end that nobody reads.
	return os.NewSyscallError("shutdown", unix.Shutdown(bell, unix.SHUT_RD))
}

// OpenBell makes a bell of a descriptor that was received, and owns it.
func OpenBell(f *os.File) (*Bell, error) {
	rc, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &Bell{f: f, rc: rc}, nil
}

// OpenEar is OpenBell for the other end.
func OpenEar(f *os.File) (*Ear, error) {
	rc, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	e := &Ear{f: f, rc: rc}
	e.hear = e.listen
	return e, nil
}

// Ring wakes whoever waits, or the next who will. It never waits: a bell that
// has no room for another ring has been rung often enough.
func (b *Bell) Ring() {
	_ = b.rc.Control(ring) // fails when it was closed: nobody waits
	if b.wake != nil {
		poke(b.wake)
	}
}

var one = [1]byte{1}

func ring(fd uintptr) {
	_, _, _ = syscall.RawSyscall6(unix.SYS_SENDTO, fd, uintptr(unsafe.Pointer(&one)), uintptr(len(one)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
}

// Wait waits until the bell has been rung since the last Wait. It may return
// though it was not: the caller looks for work either way. It fails when the
// ear is closed, or no bell is left. One goroutine waits at a time.
func (e *Ear) Wait() error {
	switch err := e.await(); {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return e.f.SetReadDeadline(time.Time{}) // Rouse was called
	case err != nil:
		return os.ErrClosed // the poller's own error of a closed file
	case e.errno != 0:
		return os.NewSyscallError("recvfrom", e.errno)
	case e.n == 0:
		return io.EOF
	}
	return nil
}

// await has hear called until it has taken rings, or found that no bell is left.
func (e *Ear) await() error {
	if e.wake == nil {
		return e.rc.Read(e.hear)
	}
	for !e.roused.Swap(false) {
		heard := false
		if err := e.rc.Control(func(fd uintptr) { heard = e.hear(fd) }); err != nil || heard {
			return err
		}
		<-e.wake
	}
	return os.ErrDeadlineExceeded
}

// Rouse ends the present Wait, or else the next one.
func (e *Ear) Rouse() {
	if e.wake != nil {
		e.roused.Store(true)
		poke(e.wake)
		return
	}
	_ = e.f.SetReadDeadline(time.Unix(1, 0)) // fails when it was closed: no Wait lasts
}

// listen takes the rings there have been. It is false if there were none.
func (e *Ear) listen(fd uintptr) bool {
	for {
		n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&e.b)), uintptr(len(e.b)), unix.MSG_DONTWAIT, 0, 0)
		if errno == unix.EINTR {
			continue
		}
		e.n, e.errno = int(n), errno
		return errno != unix.EAGAIN
	}
}

// File returns the descriptor to hand over.
func (b *Bell) File() *os.File { return b.f }

// File returns the descriptor to hand over.
func (e *Ear) File() *os.File { return e.f }

// Close gives the end back.
func (b *Bell) Close() error {
	err := b.f.Close()
	if b.wake != nil {
		poke(b.wake)
	}
	return err
}

// Close gives the end back and ends a Wait.
func (e *Ear) Close() error {
	err := e.f.Close()
	if e.wake != nil {
		poke(e.wake)
	}
	return err
}
