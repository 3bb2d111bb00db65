package afrds

import (
	"errors"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Counters returns the kernel's statistics, those of its transports included.
func (c *Conn) Counters() ([]Counter, error) { return query(c, counterReport, infoCounters, 0) }

// Connections lists the peers of this network namespace.
func (c *Conn) Connections() ([]Connection, error) {
	return query(c, connectionReport, infoConnections, info6Connections)
}

// Sockets lists the bound sockets.
func (c *Conn) Sockets() ([]SocketInfo, error) {
	return query(c, socketReport, infoSockets, info6Sockets)
}

// SendQueue lists messages not yet given to a transport.
func (c *Conn) SendQueue() ([]Message, error) {
	return query(c, messageReport, infoSendMessages, info6SendMessages)
}

// RetransmitQueue lists messages sent and not acknowledged.
func (c *Conn) RetransmitQueue() ([]Message, error) {
	return query(c, messageReport, infoRetransMessages, info6RetransMessages)
}

// ReceiveQueue lists messages that wait for their socket's reader.
func (c *Conn) ReceiveQueue() ([]Message, error) {
	return query(c, messageReport, infoRecvMessages, info6RecvMessages)
}

// TCPSockets lists the TCP connections under the paths that carry RDS.
func (c *Conn) TCPSockets() ([]TCPSocket, error) {
	return query(c, tcpSocketReport, infoTCPSockets, info6TCPSockets)
}

// isIPv4 lets query leave out of an IPv6 report what the IPv4 one listed.
func isIPv4[T any](v T) bool {
	switch v := any(v).(type) {
	case Connection:
		return v.Local.Is4()
	case SocketInfo:
		return v.Bound.Addr().Is4()
	case Message:
		return v.Local.Addr().Is4()
	case TCPSocket:
		return v.Local.Addr().Is4()
	}
	return false
}

// query reads the report opt4 and behind it what opt6 has on top, if the kernel
// knows it.
func query[T any](c *Conn, p report[T], opt4, opt6 int) ([]T, error) {
	b, size, err := c.info(opt4)
	if err != nil {
		return nil, err
	}
	list, err := p.append(nil, b, size, false)
	if err != nil || opt6 == 0 {
		return list, err
	}
	b, size, err = c.info(opt6)
	if errors.Is(err, unix.ENOPROTOOPT) {
		return list, nil
	}
	if err != nil {
		return nil, err
	}
	all, err := p.append(nil, b, size, true)
	for _, v := range all {
		if !isIPv4(v) {
			list = append(list, v)
		}
	}
	return list, err
}

// info reads one report whole and returns it with the size of its records. The
// kernel answers ENOSPC and the needed length to a buffer too small, and the
// size of a record to one that suffices (net/rds/info.c, rds_info_getsockopt).
// The list can grow between two calls, hence the loop.
func (c *Conn) info(opt int) (b []byte, size int, err error) {
	for {
		length := uint32(len(b))
		var n int
		err = c.control("getsockopt", func(fd int) error {
			r, _, errno := syscall.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), solRDS, uintptr(opt),
				uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(unsafe.Pointer(&length)), 0)
			n = int(r)
			return errnoError(errno)
		})
		switch {
		case err == nil:
			return b[:min(int(length), len(b))], n, nil
		case errors.Is(err, unix.ENOSPC):
			b = make([]byte, int(length)+int(length)/4)
		default:
			return nil, 0, err
		}
	}
}
