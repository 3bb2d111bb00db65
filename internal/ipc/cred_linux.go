package ipc

import (
	"os"

	"golang.org/x/sys/unix"
)

// Peer returns who is at the other end.
func (c *Conn) Peer() (Credentials, error) {
	rc, err := c.c.SyscallConn()
	if err != nil {
		return Credentials{}, err
	}
	var (
		cred *unix.Ucred
		cerr error
	)
	if err := rc.Control(func(fd uintptr) {
		cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return Credentials{}, err
	}
	if cerr != nil {
		return Credentials{}, os.NewSyscallError("getsockopt SO_PEERCRED", cerr)
	}
	return Credentials{PID: int(cred.Pid), UID: cred.Uid, GID: cred.Gid}, nil
}
