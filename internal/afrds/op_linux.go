package afrds

import (
	"net/netip"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// op is one sendmsg or recvmsg with all the memory the kernel sees, kept and
// used again so that a call allocates nothing. Its method values are made once.
type op struct {
	msg     unix.Msghdr
	iov     unix.Iovec
	addr    rawSockaddr
	control [controlSize]byte
	flags   int
	n       int
	errno   syscall.Errno

	send, recv         func(uintptr) bool
	sendOnce, recvOnce func(uintptr)
}

var ops = sync.Pool{New: func() any {
	o := new(op)
	o.send, o.recv = o.sendWait, o.recvWait
	o.sendOnce, o.recvOnce = o.sendmsg, o.recvmsg
	return o
}}

func getOp() *op { return ops.Get().(*op) }

// put gives the op back and lets go of the caller's buffer.
func (o *op) put() {
	o.msg, o.iov = unix.Msghdr{}, unix.Iovec{}
	ops.Put(o)
}

func (o *op) setBuffer(b []byte) {
	if len(b) > 0 {
		o.iov.Base = &b[0]
	}
	o.iov.SetLen(len(b))
	o.msg.Iov = &o.iov
	o.msg.SetIovlen(1)
}

func (o *op) prepareSend(b []byte, to netip.AddrPort, flags int) error {
	o.setBuffer(b)
	o.flags = flags
	if to.IsValid() {
		n, err := o.addr.put(to)
		if err != nil {
			return err
		}
		o.msg.Name, o.msg.Namelen = &o.addr[0], uint32(n)
	}
	return nil
}

func (o *op) prepareRecv(b []byte, flags int) {
	o.setBuffer(b)
	o.flags = flags
}

// received is what a successful receive left.
func (o *op) received() (Received, error) {
	from, err := parseSockaddr(o.addr[:min(int(o.msg.Namelen), len(o.addr))])
	if err != nil {
		return Received{}, err
	}
	r := Received{N: o.n, From: from, Flags: int(o.msg.Flags), Truncated: o.msg.Flags&unix.MSG_TRUNC != 0}
	if n := int(o.msg.Controllen); n > 0 {
		if r.Control, err = parseControl(o.control[:min(n, len(o.control))]); err != nil {
			return Received{}, err
		}
		r.Control.Incomplete = o.msg.Flags&unix.MSG_CTRUNC != 0
	}
	return r, nil
}

func (o *op) result(name string) (int, error) {
	if o.errno != 0 {
		return 0, os.NewSyscallError(name, o.errno)
	}
	return o.n, nil
}

// sendWait and recvWait return false to have the poller wait.
func (o *op) sendWait(fd uintptr) bool { o.sendmsg(fd); return o.errno != unix.EAGAIN }
func (o *op) recvWait(fd uintptr) bool { o.recvmsg(fd); return o.errno != unix.EAGAIN }

func (o *op) sendmsg(fd uintptr) {
	o.call(unix.SYS_SENDMSG, fd)
}

func (o *op) recvmsg(fd uintptr) {
	o.msg.Name, o.msg.Namelen = &o.addr[0], uint32(len(o.addr))
	o.msg.Control = &o.control[0]
	o.msg.SetControllen(len(o.control))
	o.msg.Flags = 0
	o.call(unix.SYS_RECVMSG, fd)
}

// call is the system call itself, repeated when a signal interrupts it. The
// descriptor never blocks.
func (o *op) call(trap, fd uintptr) {
	for {
		n, _, errno := syscall.Syscall(trap, fd, uintptr(unsafe.Pointer(&o.msg)), uintptr(o.flags|MsgDontWait))
		o.n, o.errno = int(n), errno
		if errno != unix.EINTR {
			return
		}
	}
}
