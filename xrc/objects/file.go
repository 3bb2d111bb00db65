//go:build unix

package objects

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// pin duplicates a descriptor, which the caller keeps, and says which inode it
// is open on, and whether it is open for writing, too. ErrAccess if it is not for reading.
func pin(fd int) (_ *os.File, key inode, writes bool, err error) {
	mode, err := accessOf(fd)
	if err != nil {
		return nil, inode{}, false, err
	}
	syscall.ForkLock.RLock()
	dup, err := syscall.Dup(fd)
	if err == nil {
		syscall.CloseOnExec(dup)
	}
	syscall.ForkLock.RUnlock()
	switch {
	case err == syscall.EBADF:
		return nil, inode{}, false, ErrFile
	case err != nil:
		return nil, inode{}, false, os.NewSyscallError("dup", err)
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(dup, &st); err != nil {
		_ = syscall.Close(dup)
		return nil, inode{}, false, os.NewSyscallError("fstat", err)
	}
	return os.NewFile(uintptr(dup), "xrcd"), inode{uint64(st.Dev), st.Ino}, mode == syscall.O_RDWR, nil
}

// accessOf is the access mode of a descriptor, which is open for reading at least.
func accessOf(fd int) (mode int, err error) {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	switch mode = flags & syscall.O_ACCMODE; {
	case err != nil:
		return 0, ErrFile
	case flags&oPath != 0 || mode == syscall.O_WRONLY:
		return 0, ErrAccess
	}
	return mode, nil
}
