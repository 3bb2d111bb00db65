package afrds

import (
	"net/netip"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Socket options and ioctls (include/uapi/linux/rds.h).
const (
	optCancelSentTo = 1 // RDS_CANCEL_SENT_TO
	optRecvErr      = 5 // RDS_RECVERR
	optCongMonitor  = 6 // RDS_CONG_MONITOR
	optTransport    = 8 // SO_RDS_TRANSPORT

	ioctlSetTOS = 0x89e0 // SIOCRDSSETTOS = SIOCPROTOPRIVATE
	ioctlGetTOS = 0x89e1 // SIOCRDSGETTOS
)

// Bind gives the socket its address. A socket can be bound once.
func (c *Conn) Bind(addr netip.AddrPort) error {
	return c.withAddr("bind", addr, func(fd int, p *byte, n int) error {
		_, _, errno := syscall.Syscall(unix.SYS_BIND, uintptr(fd), uintptr(unsafe.Pointer(p)), uintptr(n))
		return errnoError(errno)
	})
}

// Connect sets the destination of sends that name none. It sends nothing and
// does not filter what is received.
func (c *Conn) Connect(addr netip.AddrPort) error {
	return c.withAddr("connect", addr, func(fd int, p *byte, n int) error {
		_, _, errno := syscall.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(p)), uintptr(n))
		return errnoError(errno)
	})
}

// CancelSentTo withdraws what this socket sent to exactly this address and
// port and the peer has not acknowledged.
func (c *Conn) CancelSentTo(addr netip.AddrPort) error {
	return c.withAddr("setsockopt", addr, func(fd int, p *byte, n int) error {
		return setsockopt(fd, solRDS, optCancelSentTo, unsafe.Pointer(p), n)
	})
}

// LocalAddrPort returns the address the socket is bound to; it is not valid
// before Bind.
func (c *Conn) LocalAddrPort() (netip.AddrPort, error) {
	var sa rawSockaddr
	size := uint32(len(sa))
	err := c.control("getsockname", func(fd int) error {
		_, _, errno := syscall.Syscall(unix.SYS_GETSOCKNAME, uintptr(fd), uintptr(unsafe.Pointer(&sa)), uintptr(unsafe.Pointer(&size)))
		return errnoError(errno)
	})
	if err != nil {
		return netip.AddrPort{}, err
	}
	addr, err := parseSockaddr(sa[:min(int(size), len(sa))])
	if err != nil || addr.Addr().IsUnspecified() {
		return netip.AddrPort{}, err
	}
	return addr, nil
}

// SetCongestionMonitor selects how the end of congestion is told: on, receives
// bring Control.CongestionUpdate for ports a non-blocking send was refused for;
// off, every arriving map shows in Poll. The switch is a boolean, not a mask
// (net/rds/af_rds.c, rds_cong_monitor), and cannot be read back.
func (c *Conn) SetCongestionMonitor(on bool) error {
	return c.setInt(solRDS, optCongMonitor, boolInt(on))
}

// SetRecvErr has lost RDMA operations reported in Control.Statuses.
func (c *Conn) SetRecvErr(on bool) error { return c.setInt(solRDS, optRecvErr, boolInt(on)) }

// RecvErr returns what SetRecvErr set.
func (c *Conn) RecvErr() (bool, error) {
	v, err := c.int(solRDS, optRecvErr)
	return v != 0, err
}

// SetTransport binds the socket to a transport. It must come before Bind.
func (c *Conn) SetTransport(t int) error { return c.setInt(solRDS, optTransport, t) }

// Transport returns the socket's transport, TransportNone while it has none.
func (c *Conn) Transport() (int, error) { return c.int(solRDS, optTransport) }

// SetSendBuffer limits the payload bytes that may wait for acknowledgement. The
// kernel caps it at net.core.wmem_max without an error; SendBuffer tells.
func (c *Conn) SetSendBuffer(bytes int) error {
	return c.setInt(unix.SOL_SOCKET, unix.SO_SNDBUF, bytes)
}

// SendBuffer returns the limit in effect: RDS uses half of what the option
// reads (net/rds/rds.h, rds_sk_sndbuf), which is twice what was asked for.
func (c *Conn) SendBuffer() (int, error) {
	v, err := c.int(unix.SOL_SOCKET, unix.SO_SNDBUF)
	return v / 2, err
}

// SetReceiveBuffer sets the payload bytes above which the socket's port becomes
// congested. The kernel caps it at net.core.rmem_max without an error.
func (c *Conn) SetReceiveBuffer(bytes int) error {
	return c.setInt(unix.SOL_SOCKET, unix.SO_RCVBUF, bytes)
}

// ReceiveBuffer returns the limit in effect, as SendBuffer does.
func (c *Conn) ReceiveBuffer() (int, error) {
	v, err := c.int(unix.SOL_SOCKET, unix.SO_RCVBUF)
	return v / 2, err
}

// SetTOS sets the type of service, part of a connection's identity on
// InfiniBand and always 0 on TCP. It works once, after Bind and before the
// first message.
func (c *Conn) SetTOS(tos uint8) error {
	return c.control("ioctl", func(fd int) error { return ioctl(fd, ioctlSetTOS, &tos) })
}

// TOS returns the socket's type of service.
func (c *Conn) TOS() (tos uint8, err error) {
	err = c.control("ioctl", func(fd int) error { return ioctl(fd, ioctlGetTOS, &tos) })
	return tos, err
}

// withAddr runs a call that takes a socket address.
func (c *Conn) withAddr(name string, addr netip.AddrPort, call func(fd int, p *byte, n int) error) error {
	var sa rawSockaddr
	n, err := sa.put(addr)
	if err != nil {
		return err
	}
	return c.control(name, func(fd int) error { return call(fd, &sa[0], n) })
}

func (c *Conn) setInt(level, name, value int) error {
	return c.control("setsockopt", func(fd int) error { return unix.SetsockoptInt(fd, level, name, value) })
}

func (c *Conn) int(level, name int) (v int, err error) {
	err = c.control("getsockopt", func(fd int) (err error) {
		v, err = unix.GetsockoptInt(fd, level, name)
		return err
	})
	return v, err
}

func setsockopt(fd, level, name int, p unsafe.Pointer, n int) error {
	_, _, errno := syscall.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), uintptr(level), uintptr(name), uintptr(p), uintptr(n), 0)
	runtime.KeepAlive(p)
	return errnoError(errno)
}

func ioctl(fd int, request uintptr, p *uint8) error {
	_, _, errno := syscall.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(p)))
	return errnoError(errno)
}

func errnoError(errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
