package ipc

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Peer returns who is at the other end.
func (c *Conn) Peer() (Credentials, error) { return PeerOf(c.c) }

// PeerOf returns who is at the other end of a Unix socket.
func PeerOf(c syscall.Conn) (Credentials, error) {
	rc, err := c.SyscallConn()
	if err != nil {
		return Credentials{}, err
	}
	var (
		out  Credentials
		cred *unix.Ucred
		cerr error
	)
	if err := rc.Control(func(fd uintptr) {
		if cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); cerr == nil {
			out.Groups = peerGroups(fd)
		}
	}); err != nil {
		return Credentials{}, err
	}
	if cerr != nil {
		return Credentials{}, os.NewSyscallError("getsockopt SO_PEERCRED", cerr)
	}
	out.PID, out.UID, out.GID = int(cred.Pid), cred.Uid, cred.Gid
	return out, nil
}

// peerGroups returns the supplementary groups of the other end, none if the
// kernel does not tell (Linux 4.13).
func peerGroups(fd uintptr) []uint32 {
	groups := make([]uint32, 64)
	for range 2 {
		n := uint32(4 * len(groups))
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&groups[0])), uintptr(unsafe.Pointer(&n)), 0)
		switch errno {
		case 0:
			return groups[:n/4]
		case syscall.ERANGE: // n says how many there are
			groups = make([]uint32, n/4)
		default:
			return nil
		}
	}
	return nil
}
