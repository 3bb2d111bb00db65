package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// A daemon serves only while it has the lock of its sockets. A successor opens the file of the
// lock itself, and gets the lock when the one before has given it up or has died, which the kernel
// knows: no process number tells it, which means nothing in another container.

// rawConn is a connection with a descriptor.
type rawConn interface {
	SyscallConn() (syscall.RawConn, error)
}

// servingLock is the lock.
type servingLock struct{ f *os.File }

// lockPath is the file of the lock, beside the socket where successors ask.
func lockPath(asks string) string { return strings.TrimSuffix(asks, ".takeover") + ".lock" }

// openLock opens the file of the lock, and makes it if there is none.
func openLock(path string) (*servingLock, error) {
	if strings.HasPrefix(path, "@") { // of a socket without a file
		return nil, fmt.Errorf("lock of the daemon's sockets: %s is no file", path)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock of the daemon's sockets: %w", err)
	}
	if _, err := lockFile(f); err != nil { // the system has no such locks
		_ = f.Close()
		return nil, fmt.Errorf("lock of the daemon's sockets: %w", err)
	}
	return &servingLock{f}, nil
}

// shared tells whether another process that opens the path gets the same lock: nobody has removed the file.
func (l *servingLock) shared() bool {
	here, err := l.f.Stat()
	there, err2 := os.Stat(l.f.Name())
	return err == nil && err2 == nil && os.SameFile(here, there)
}

// take waits for the lock, at most for a time, and tells whether this process has it. Without a lock it has.
func (l *servingLock) take(most time.Duration) (bool, error) {
	if l == nil { // there is no lock: nobody takes over, either
		return true, nil
	}
	for deadline := time.Now().Add(most); ; time.Sleep(lockPause) {
		ok, err := lockFile(l.f)
		if ok || err != nil || !time.Now().Before(deadline) {
			return ok, err
		}
	}
}

// lockPause is how long take waits until it looks again: the kernel tells nobody who has a time
// limit when a lock is given up.
const lockPause = time.Millisecond

// give gives the lock up.
func (l *servingLock) give() { unlockFile(l.f) }

// close gives the lock up for good.
func (l *servingLock) close() {
	if l != nil {
		_ = l.f.Close()
	}
}
