package statefile

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// open opens, locks and maps the file.
func open(path string) (*os.File, []byte, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, nil, err
	}
	mem, err := lock(f)
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, mem, nil
}

func lock(f *os.File) ([]byte, error) {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errInUse
		}
		return nil, os.NewSyscallError("flock", err)
	}
	return mapFile(f)
}

func mapFile(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("statefile: %s is no regular file", f.Name())
	}
	switch info.Size() {
	case size:
	case sizeOne:
		if err := f.Truncate(size); err != nil {
			return nil, err
		}
	default:
		if err := errors.Join(f.Truncate(0), f.Truncate(size)); err != nil {
			return nil, err
		}
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return mem, os.NewSyscallError("mmap", err)
}

// unlock lets another process have the file, which a mapping alone would not.
func unlock(f *os.File) { _ = unix.Flock(int(f.Fd()), unix.LOCK_UN) }

// bootID tells one boot of the host from the others.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	id := strings.TrimSpace(string(b))
	return id[:min(len(id), bootSize)]
}
