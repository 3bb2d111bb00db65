//go:build unix

package objects

import (
	"os"
	"syscall"
)

// pin duplicates a descriptor, which the caller keeps, and says which inode it
// is open on.
func pin(fd int) (*os.File, inode, error) {
	syscall.ForkLock.RLock()
	dup, err := syscall.Dup(fd)
	if err == nil {
		syscall.CloseOnExec(dup)
	}
	syscall.ForkLock.RUnlock()
	switch {
	case err == syscall.EBADF:
		return nil, inode{}, ErrFile
	case err != nil:
		return nil, inode{}, os.NewSyscallError("dup", err)
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(dup, &st); err != nil {
		_ = syscall.Close(dup)
		return nil, inode{}, os.NewSyscallError("fstat", err)
	}
	return os.NewFile(uintptr(dup), "xrcd"), inode{uint64(st.Dev), st.Ino}, nil
}
