package ebpf

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockWait is how long a process waits for another one that is changing the same pins.
const lockWait = 5 * time.Second

// exclude takes the lock of an open directory, which processes that change the same pins take.
// It waits for lockWait at most. The result gives the lock back.
func exclude(dir *os.File) (unlock func(), err error) {
	fd := int(dir.Fd())
	for end := time.Now().Add(lockWait); ; time.Sleep(time.Millisecond) {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = unix.Flock(fd, unix.LOCK_UN) }, nil
		}
		if err != unix.EINTR && (err != unix.EWOULDBLOCK || time.Now().After(end)) {
			return nil, err
		}
	}
}

// makePins makes a directory for pins, or finds it, and takes its lock; made tells which. To close
// the directory gives the lock back. A directory that another process removes meanwhile, with the
// last pin in it, is made again.
func makePins(path string) (dir *os.File, made bool, err error) {
	for end := time.Now().Add(lockWait); ; {
		err := os.Mkdir(path, 0o755)
		if err != nil && !errors.Is(err, os.ErrExist) {
			return nil, false, err
		}
		made := err == nil
		dir, err := lockPins(path)
		if errors.Is(err, os.ErrNotExist) && time.Now().Before(end) {
			continue
		}
		if err != nil {
			return nil, false, err
		}
		var fs unix.Statfs_t
		if err := unix.Fstatfs(int(dir.Fd()), &fs); err == nil && uint32(fs.Type) != unix.BPF_FS_MAGIC {
			if made {
				_ = os.Remove(path)
			}
			dir.Close()
			return nil, false, fmt.Errorf("%s is not on a BPF file system", path)
		}
		return dir, made, nil
	}
}

// lockPins opens a directory of pins and takes its lock. To close the directory gives the lock
// back. If another process has removed the directory meanwhile, the error Is os.ErrNotExist.
func lockPins(path string) (*os.File, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if _, err := exclude(dir); err != nil {
		dir.Close()
		return nil, fmt.Errorf("another process is changing %s: %w", path, err)
	}
	if !isAt(dir, path) {
		dir.Close()
		return nil, &os.PathError{Op: "open", Path: path, Err: os.ErrNotExist}
	}
	return dir, nil
}

// isAt tells whether a path leads to an open directory.
func isAt(dir *os.File, path string) bool {
	is, err := dir.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(is, there)
}
