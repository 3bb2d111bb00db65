package peer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// Sizes and numbers of include/uapi/linux/inet_diag.h and sock_diag.h.
const (
	sockDiagByFamily = 20 // SOCK_DIAG_BY_FAMILY
	sockDestroy      = 21 // SOCK_DESTROY

	tcpEstablished = 1 // of include/net/tcp_states.h
	tcpListen      = 10

	sizeofDiagID  = 48 // struct inet_diag_sockid
	sizeofDiagReq = 8 + sizeofDiagID
	sizeofDiagMsg = 4 + sizeofDiagID + 20
)

var errBadNetlink = errors.New("peer: malformed netlink message")

// diagConn is a TCPConn with what the kernel knows it by.
type diagConn struct {
	TCPConn
	listener bool
	family   uint8
	id       [sizeofDiagID]byte
}

// tcpConns lists the TCP connections of this network namespace that have a port
// at one end, or what listens there.
func tcpConns(port uint16, listeners bool) ([]TCPConn, error) {
	conns, err := dumpTCP(port)
	list := make([]TCPConn, 0, len(conns))
	for _, c := range conns {
		if c.listener == listeners {
			list = append(list, c.TCPConn)
		}
	}
	return list, err
}

// destroy aborts a connection as SOCK_DESTROY does: this side's socket fails
// with ECONNABORTED, the other side gets a RST.
func destroy(t TCPConn) error {
	conns, err := dumpTCP(t.Local.Port())
	if err != nil {
		return err
	}
	for _, c := range conns {
		if c.Local == t.Local && c.Remote == t.Remote {
			err := netlink(diagRequest(sockDestroy, unix.NLM_F_REQUEST|unix.NLM_F_ACK, c.family, c.id[:]), nil)
			return os.NewSyscallError("SOCK_DESTROY", err)
		}
	}
	return os.NewSyscallError("SOCK_DESTROY", unix.ENOENT)
}

func dumpTCP(port uint16) ([]diagConn, error) {
	var conns []diagConn
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		req := diagRequest(sockDiagByFamily, unix.NLM_F_REQUEST|unix.NLM_F_DUMP, family, make([]byte, sizeofDiagID))
		err := netlink(req, func(b []byte) error {
			c, err := parseDiag(b)
			if err != nil {
				return err
			}
			if c.Local.Port() == port || c.Remote.Port() == port {
				conns = append(conns, c)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("peer: TCP connections: %w", err)
		}
	}
	return conns, nil
}

// diagRequest is a netlink header and a struct inet_diag_req_v2 for TCP in all
// states.
func diagRequest(kind, flags uint16, family uint8, id []byte) []byte {
	b := make([]byte, 0, unix.SizeofNlMsghdr+sizeofDiagReq)
	b = binary.NativeEndian.AppendUint32(b, uint32(cap(b)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = binary.NativeEndian.AppendUint16(b, flags)
	b = binary.NativeEndian.AppendUint32(b, 1) // sequence
	b = binary.NativeEndian.AppendUint32(b, 0) // port
	b = append(b, family, unix.IPPROTO_TCP, 0, 0)
	b = binary.NativeEndian.AppendUint32(b, ^uint32(0))
	return append(b, id...)
}

// parseDiag decodes a struct inet_diag_msg.
func parseDiag(b []byte) (c diagConn, err error) {
	if len(b) < sizeofDiagMsg {
		return c, errBadNetlink
	}
	c.family = b[0]
	c.Established = b[1] == tcpEstablished
	c.listener = b[1] == tcpListen
	copy(c.id[:], b[4:])
	addr := func(b []byte) netip.Addr {
		if c.family == unix.AF_INET {
			return netip.AddrFrom4([4]byte(b[:4]))
		}
		return netip.AddrFrom16([16]byte(b[:16])).Unmap()
	}
	c.Local = netip.AddrPortFrom(addr(c.id[4:]), binary.BigEndian.Uint16(c.id[0:]))
	c.Remote = netip.AddrPortFrom(addr(c.id[20:]), binary.BigEndian.Uint16(c.id[2:]))
	return c, nil
}

// netlink sends a request to the socket monitor and hands each answer's body
// to each, until the answer to the request is complete.
func netlink(req []byte, each func(body []byte) error) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Sendto(fd, req, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if done, err := netlinkMessages(buf[:n], each); done || err != nil {
			return err
		}
	}
}

func netlinkMessages(b []byte, each func([]byte) error) (done bool, err error) {
	for len(b) >= unix.SizeofNlMsghdr {
		size := int(binary.NativeEndian.Uint32(b))
		if size < unix.SizeofNlMsghdr || size > len(b) {
			return false, errBadNetlink
		}
		body := b[unix.SizeofNlMsghdr:size]
		switch binary.NativeEndian.Uint16(b[4:]) {
		case unix.NLMSG_DONE:
			return true, nil
		case unix.NLMSG_ERROR:
			if len(body) < 4 {
				return false, errBadNetlink
			}
			if errno := -int32(binary.NativeEndian.Uint32(body)); errno != 0 {
				return true, unix.Errno(errno)
			}
			return true, nil
		default:
			if each != nil {
				if err := each(body); err != nil {
					return false, err
				}
			}
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return false, nil
}
