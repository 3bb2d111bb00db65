package objects

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// accessOf is the access mode of a descriptor, which is open for reading at least. One of O_PATH
// says O_RDONLY, too, although nobody has looked at the permissions of its file.
func accessOf(fd int) (mode int, err error) {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	switch mode = flags & syscall.O_ACCMODE; {
	case err != nil:
		return 0, ErrFile
	case flags&unix.O_PATH != 0 || mode == syscall.O_WRONLY:
		return 0, ErrAccess
	}
	return mode, nil
}
