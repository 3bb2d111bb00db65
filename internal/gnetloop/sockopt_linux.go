package gnetloop

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// setBuffers fixes the buffer sizes that were asked for. The kernel doubles
// them; zero leaves its own tuning on.
func setBuffers(fd int, o *Options) error {
	if o.SendBuffer > 0 {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, o.SendBuffer); err != nil {
			return os.NewSyscallError("setsockopt SO_SNDBUF", err)
		}
	}
	if o.ReceiveBuffer > 0 {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, o.ReceiveBuffer); err != nil {
			return os.NewSyscallError("setsockopt SO_RCVBUF", err)
		}
	}
	return nil
}

// setOptions sets what every connection gets, on both sides, as
// net/rds/tcp.c, rds_tcp_nonagle and net/rds/tcp_listen.c, rds_tcp_keepalive do.
func setOptions(fd int, o *Options) error {
	for _, s := range []struct {
		name              string
		level, opt, value int
	}{
		{"TCP_NODELAY", unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		{"TCP_KEEPIDLE", unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, int(o.KeepAliveIdle / time.Second)},
		{"TCP_KEEPINTVL", unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, int(o.KeepAliveInterval / time.Second)},
		{"TCP_KEEPCNT", unix.IPPROTO_TCP, unix.TCP_KEEPCNT, o.keepAliveCount()},
		{"SO_KEEPALIVE", unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{"TCP_USER_TIMEOUT", unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(o.UserTimeout / time.Millisecond)},
	} {
		if err := unix.SetsockoptInt(fd, s.level, s.opt, s.value); err != nil {
			return os.NewSyscallError("setsockopt "+s.name, err)
		}
	}
	boundRTO(fd, o.rtoMax())
	if err := setBuffers(fd, o); err != nil || o.ReceiveBuffer == 0 {
		return err
	}
	return openWindow(fd)
}

// boundRTO bounds the time between two retransmissions, where the kernel can.
func boundRTO(fd int, d time.Duration) {
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_RTO_MAX_MS, int(d/time.Millisecond))
}

// openWindow lets the receive window of a connected socket grow to the whole of a
// receive buffer that SO_RCVBUF has fixed. The kernel computes the largest window
// (tcp_select_initial_window, net/ipv4/tcp_output.c) at the handshake, from the
// buffer of that moment, and neither SO_RCVBUF nor its own tuning, which SO_RCVBUF
// switches off, ever raises it again: the window stays at some 126 KB.
func openWindow(fd int) error {
	size, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err != nil {
		return os.NewSyscallError("getsockopt SO_RCVBUF", err)
	}
	return os.NewSyscallError("setsockopt TCP_WINDOW_CLAMP", unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_WINDOW_CLAMP, size))
}

// checkCongestion tells whether the system has the algorithm and lets us use it.
func checkCongestion(name string) error {
	if name == "" {
		return nil
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	return setCongestion(fd, name)
}

func setCongestion(fd int, name string) error {
	if name == "" {
		return nil
	}
	return os.NewSyscallError("setsockopt TCP_CONGESTION",
		unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, name))
}

// duplicate returns another descriptor of fd's socket, not inherited by
// children, and never one that a write error would turn into SIGPIPE's default
// action (the Go runtime spares all but standard output and error).
func duplicate(fd int) (int, error) {
	n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	return n, os.NewSyscallError("fcntl F_DUPFD_CLOEXEC", err)
}

// setLinger makes the last close of the socket a reset.
func setLinger(fd int) {
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
}

// MSS returns how many bytes a segment to the peer holds at most (TCP_MAXSEG),
// as far as it is known now, 0 when the connection has ended.
func (c *Conn) MSS() int {
	if !c.acquire() {
		return 0
	}
	defer c.put()
	n, err := unix.GetsockoptInt(c.fd, unix.IPPROTO_TCP, unix.TCP_MAXSEG)
	if err != nil {
		return 0
	}
	return n
}
