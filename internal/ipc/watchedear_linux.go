package ipc

import (
	"io"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// WatchedEar is an ear at which nobody waits: an event loop watches its descriptor, which Go's
// poller does not know. An os.File of the descriptor would be in that poller, and
// os.File.Fd would make the descriptor a blocking one.
type WatchedEar struct{ fd int }

// NewWatchedBell makes a doorbell with an ear for an event loop.
func NewWatchedBell() (*Bell, *WatchedEar, error) {
	p, err := bellPair()
	if err != nil {
		return nil, nil, err
	}
	bell, err := OpenBell(os.NewFile(uintptr(p[1]), "bell"))
	if err != nil {
		unix.Close(p[0])
		return nil, nil, err
	}
	return bell, &WatchedEar{p[0]}, nil
}

// OpenWatchedEar makes an ear of a descriptor that was received, and closes f.
func OpenWatchedEar(f *os.File) (*WatchedEar, error) {
	rc, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	e := new(WatchedEar)
	if err := rc.Control(func(fd uintptr) { e.fd, err = duplicate(fd) }); err != nil {
		f.Close()
		return nil, err
	}
	if e2 := f.Close(); err == nil { // takes the file out of Go's poller; the duplicate was never there
		err = e2
	}
	if err != nil {
		return nil, err
	}
	return e, os.NewSyscallError("fcntl O_NONBLOCK", unix.SetNonblock(e.fd, true))
}

// FD is the descriptor to watch. It is readable when the bell has been rung, or no bell is left.
func (e *WatchedEar) FD() int { return e.fd }

// Take takes rings, as many as one read brings. It never waits, and fails when no bell is left.
// There may have been none.
func (e *WatchedEar) Take() error {
	var b [64]byte
	for {
		n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(e.fd), uintptr(unsafe.Pointer(&b)), uintptr(len(b)), unix.MSG_DONTWAIT, 0, 0)
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN:
			return nil
		case errno != 0:
			return os.NewSyscallError("recvfrom", errno)
		case n == 0:
			return io.EOF
		}
		return nil
	}
}

// Duplicate returns another descriptor of the ear, to hand over.
func (e *WatchedEar) Duplicate() (*os.File, error) {
	fd, err := duplicate(uintptr(e.fd))
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "ear"), nil
}

// Close gives the end back. Nobody watches the descriptor any more.
func (e *WatchedEar) Close() error { return unix.Close(e.fd) }
