package gnetloop

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/transport"
)

// vectors holds the arrays that vectored system calls take, so that these
// allocate nothing (those of x/sys build theirs anew in each call). out
// belongs to the link's one writer, in to its event loop.
type vectors struct {
	out []unix.Iovec
	in  [2]unix.Iovec
}

// writev writes bufs, at most transport.MaxSlices of them, and tells whether
// the socket took less than all.
func (v *vectors) writev(fd int, bufs [][]byte) (n int, full bool, errno unix.Errno) {
	cut := len(bufs) > transport.MaxSlices
	if cut {
		bufs = bufs[:transport.MaxSlices]
	}
	want, iov := 0, v.out[:0]
	for _, b := range bufs {
		if len(b) == 0 {
			continue
		}
		want += len(b)
		iov = append(iov, unix.Iovec{Base: unsafe.SliceData(b)})
		iov[len(iov)-1].SetLen(len(b))
	}
	v.out = iov
	switch len(iov) {
	case 0:
		return 0, cut, 0
	case 1:
		n, errno = call(unix.SYS_WRITE, fd, unsafe.Pointer(iov[0].Base), want)
	default:
		n, errno = call(unix.SYS_WRITEV, fd, unsafe.Pointer(unsafe.SliceData(iov)), len(iov))
	}
	clear(iov) // the caller's memory is the caller's again
	return n, cut || n < want, errno
}

// readv reads into a, then into b.
func (v *vectors) readv(fd int, a, b []byte) (n int, errno unix.Errno) {
	v.in[0].Base, v.in[1].Base = unsafe.SliceData(a), unsafe.SliceData(b)
	v.in[0].SetLen(len(a))
	v.in[1].SetLen(len(b))
	n, errno = call(unix.SYS_READV, fd, unsafe.Pointer(&v.in), 2)
	v.in = [2]unix.Iovec{}
	return n, errno
}

// call makes a read or write system call until it is not interrupted. It
// returns 0 bytes with every error.
func call(trap uintptr, fd int, p unsafe.Pointer, n int) (int, unix.Errno) {
	for {
		r, _, errno := unix.Syscall(trap, uintptr(fd), uintptr(p), uintptr(n))
		switch errno {
		case 0:
			return int(r), 0
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}

// outq returns how many written bytes are not acknowledged.
func outq(fd int) (uint64, unix.Errno) { return queued(fd, unix.SIOCOUTQ) }

// inq returns how many bytes have come that are not read.
func inq(fd int) (uint64, unix.Errno) { return queued(fd, unix.SIOCINQ) }

func queued(fd int, which uintptr) (uint64, unix.Errno) {
	var n int32 // the kernel writes a C int, whatever the word size
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), which, uintptr(unsafe.Pointer(&n)))
	return uint64(n), errno
}
