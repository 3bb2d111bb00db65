package ebpf

import (
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
