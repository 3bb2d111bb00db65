package netlink

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// Sizes and numbers of include/uapi/linux/inet_diag.h and sock_diag.h.
const (
	sockDiagByFamily = 20 // SOCK_DIAG_BY_FAMILY
	sockDestroy      = 21 // SOCK_DESTROY

	sizeofDiagID  = 48 // struct inet_diag_sockid
	sizeofDiagReq = 8 + sizeofDiagID
	sizeofDiagMsg = 4 + sizeofDiagID + 20
)

// States of a TCP socket, of include/net/tcp_states.h.
const (
	Established = 1
	Listen      = 10
)

// Socket is a TCP socket of this network namespace.
type Socket struct {
	Local, Remote netip.AddrPort // addresses are unmapped
	State         uint8
	family        uint8
	id            [sizeofDiagID]byte // by which the kernel knows it
}

// TCP lists the TCP sockets that want holds for, in any state.
func TCP(want func(*Socket) bool) ([]Socket, error) {
	var list []Socket
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		req := diagRequest(sockDiagByFamily, unix.NLM_F_REQUEST|unix.NLM_F_DUMP, family, make([]byte, sizeofDiagID))
		err := request(unix.NETLINK_SOCK_DIAG, req, func(b []byte) error {
			s, err := parseDiag(b)
			if err == nil && want(&s) {
				list = append(list, s)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("TCP connections: %w", err)
		}
	}
	return list, nil
}

// Destroy aborts the socket's connection as SOCK_DESTROY does: the socket fails with
// ECONNABORTED, the other side gets a RST. The error is ENOENT if there is no such socket any
// more, EOPNOTSUPP if the kernel cannot do it (CONFIG_INET_DIAG_DESTROY), and EPERM without
// CAP_NET_ADMIN.
func (s *Socket) Destroy() error {
	req := diagRequest(sockDestroy, unix.NLM_F_REQUEST|unix.NLM_F_ACK, s.family, s.id[:])
	return os.NewSyscallError("SOCK_DESTROY", request(unix.NETLINK_SOCK_DIAG, req, nil))
}

// CanDestroy asks whether Destroy works here, by a socket that there is not. The errors are
// those of Destroy.
func CanDestroy() error {
	err := (&Socket{family: unix.AF_INET}).Destroy()
	if se, ok := err.(*os.SyscallError); ok && se.Err == unix.ENOENT {
		return nil
	}
	return err
}

// diagRequest is a netlink header and a struct inet_diag_req_v2 for TCP in all states.
func diagRequest(kind, flags uint16, family uint8, id []byte) []byte {
	b := header(nil, sizeofDiagReq, kind, flags)
	b = append(b, family, unix.IPPROTO_TCP, 0, 0)
	b = binary.NativeEndian.AppendUint32(b, ^uint32(0))
	return append(b, id...)
}

// parseDiag decodes a struct inet_diag_msg.
func parseDiag(b []byte) (s Socket, err error) {
	if len(b) < sizeofDiagMsg {
		return s, errMalformed
	}
	s.family, s.State = b[0], b[1]
	copy(s.id[:], b[4:])
	addr := func(b []byte) netip.Addr {
		if s.family == unix.AF_INET {
			return netip.AddrFrom4([4]byte(b[:4]))
		}
		return netip.AddrFrom16([16]byte(b[:16])).Unmap()
	}
	s.Local = netip.AddrPortFrom(addr(s.id[4:]), binary.BigEndian.Uint16(s.id[0:]))
	s.Remote = netip.AddrPortFrom(addr(s.id[20:]), binary.BigEndian.Uint16(s.id[2:]))
	return s, nil
}
