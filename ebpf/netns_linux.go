package ebpf

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// inNetns runs f on a thread that is in the network namespace of a file, such as
// /run/netns/blue or /proc/17/ns/net; "" is the namespace of the caller. Going to another one
// takes CAP_SYS_ADMIN.
func inNetns(path string, f func() error) error {
	if path == "" {
		return f()
	}
	return onMovingThread(func() error {
		if err := enterNetns(path); err != nil {
			return fmt.Errorf("network namespace %s: %w", path, err)
		}
		return f()
	})
}

// enterNetns moves the calling thread into the network namespace of a file.
func enterNetns(path string) error {
	ns, err := os.Open(path)
	if err != nil {
		return err
	}
	defer ns.Close()
	err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
	if err == unix.EPERM {
		return errEnterNetns
	}
	return err
}

// onMovingThread runs f on a thread that f may move to other network namespaces. Afterwards the thread
// is moved back. If that fails it ends, so that nobody else gets it. It should not end when all is
// well: child processes that it started with Pdeathsig would get that signal.
func onMovingThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- func() error {
			home, err := os.Open("/proc/thread-self/ns/net")
			if err != nil {
				runtime.UnlockOSThread()
				return err
			}
			defer home.Close()
			was, err := netnsInode()
			if err != nil {
				runtime.UnlockOSThread()
				return err
			}
			err = f()
			if now, e := netnsInode(); e == nil && now == was || unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
				runtime.UnlockOSThread()
			}
			return err
		}()
	}()
	return <-done
}

// netnsInode is the inode of the calling thread's network namespace.
func netnsInode() (uint32, error) {
	var ns unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &ns); err != nil {
		return 0, fmt.Errorf("/proc/thread-self/ns/net: %w", err)
	}
	return uint32(ns.Ino), nil
}
