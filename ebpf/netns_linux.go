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
	ns, err := os.Open(path)
	if err != nil {
		return err
	}
	defer ns.Close()
	done := make(chan error)
	go func() {
		// The thread is not unlocked: it ends with the goroutine, and nobody else gets it.
		runtime.LockOSThread()
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("network namespace %s: %w", path, err)
			return
		}
		done <- f()
	}()
	return <-done
}
