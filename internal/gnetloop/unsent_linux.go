package gnetloop

import (
	"cmp"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// What waits in a socket's send buffer waits better in our queue: there it can
// still be canceled, joined by others for the same write, and, most of all, it
// does not turn the kernel's buffers over until nothing of them is left in the
// processor's caches. Measured one way over loopback with 8 KiB messages, a
// send buffer that grows as it likes costs twice the CPU of these bounds.
const (
	// unsentMost bounds what the socket has taken and not sent. It does not
	// bound what is in flight, so a long fat link loses nothing.
	unsentMost = 128 << 10
	// hereSendBuffer is LocalSendBuffer if the options do not say.
	hereSendBuffer = 256 << 10
	// hereReceiveBuffer is SO_RCVBUF there. It bounds what a sender gets rid of
	// while our event loop is kept from the processor: news of congestion would
	// come too late for it. With half as much, the two sides of a stream wait for
	// each other more often: measured, a fifth to a third more CPU for each byte.
	hereReceiveBuffer = 2 << 20
)

// limitUnsent applies the bounds, unless the options fix the buffer.
func limitUnsent(fd int, o *Options, here bool) error {
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsentMost); err != nil {
		return os.NewSyscallError("setsockopt TCP_NOTSENT_LOWAT", err)
	}
	if here && o.SendBuffer == 0 {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, cmp.Or(o.LocalSendBuffer, hereSendBuffer)); err != nil {
			return os.NewSyscallError("setsockopt SO_SNDBUF", err)
		}
	}
	if here && o.ReceiveBuffer == 0 && receiveBufferMost() >= hereReceiveBuffer {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, hereReceiveBuffer); err != nil {
			return os.NewSyscallError("setsockopt SO_RCVBUF", err)
		}
		return openWindow(fd)
	}
	return nil
}

// receiveBufferMost is the largest SO_RCVBUF that the system grants, 0 if it does
// not say. A smaller one than was asked for would be worse than the kernel's tuning,
// which goes beyond this.
func receiveBufferMost() int {
	b, err := os.ReadFile("/proc/sys/net/core/rmem_max")
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0
	}
	return n
}

// onThisHost tells whether remote is one of this host's addresses.
func onThisHost(local, remote netip.Addr) bool {
	if remote.IsLoopback() || remote == local {
		return true
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr() == remote.WithZone("") {
			return true
		}
	}
	return false
}
