//go:build unix && !aix && !solaris && !illumos

package control

import (
	"os"
	"syscall"
	"time"
)

// How long lockDir tries. The lock is held for moments, so that who holds it
// longer is not one of us; it must not keep a node from starting.
const (
	lockTries = 100
	lockPause = 10 * time.Millisecond
)

// lockDir locks the directory against other servers that start, if it can, and
// returns the function that unlocks it.
func lockDir(dir string) (unlock func()) {
	f, err := os.Open(dir)
	if err != nil {
		return func() {}
	}
	for range lockTries {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != syscall.EWOULDBLOCK {
			break
		}
		time.Sleep(lockPause)
	}
	return func() { f.Close() }
}
