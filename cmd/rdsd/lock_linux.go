package main

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile tries to lock an open file for this process's own description of it (fcntl_locking(2),
// open file description locks): another process that opens the file itself cannot, until the
// last descriptor of the description is closed, by the kernel if the process dies.
func lockFile(f *os.File) (bool, error) { return setLock(f, unix.F_WRLCK) }

func unlockFile(f *os.File) { _, _ = setLock(f, unix.F_UNLCK) }

func setLock(f *os.File, kind int16) (bool, error) {
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: kind})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return false, nil
	}
	return err == nil, os.NewSyscallError("fcntl F_OFD_SETLK", err)
}

// processFile is a descriptor of the process at the other end of a Unix socket, which names it in
// whatever PID namespace it is (Linux 6.5), or of the process with a number; nil: there is none.
func processFile(c rawConn, pid int) *os.File {
	const soPeerPidfd = 77 // SO_PEERPIDFD
	fd := -1
	if rc, err := c.SyscallConn(); err == nil {
		_ = rc.Control(func(s uintptr) {
			if v, err := unix.GetsockoptInt(int(s), unix.SOL_SOCKET, soPeerPidfd); err == nil {
				fd = v
			}
		})
	}
	if fd < 0 && pid > 0 {
		if v, err := unix.PidfdOpen(pid, 0); err == nil {
			fd = v
		}
	}
	if fd < 0 {
		return nil
	}
	return os.NewFile(uintptr(fd), "process")
}

// killProcess ends the process of a descriptor.
func killProcess(f *os.File) {
	if f != nil {
		_ = unix.PidfdSendSignal(int(f.Fd()), unix.SIGKILL, nil, 0)
	}
}
