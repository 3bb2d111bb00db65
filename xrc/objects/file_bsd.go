//go:build unix && !linux

package objects

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// accessOf is the access mode of a descriptor, which is open for reading at least.
func accessOf(fd int) (mode int, err error) {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	switch mode = flags & syscall.O_ACCMODE; {
	case err != nil:
		return 0, ErrFile
	case mode == syscall.O_WRONLY:
		return 0, ErrAccess
	}
	return mode, nil
}
