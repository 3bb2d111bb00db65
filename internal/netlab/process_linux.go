package netlab

import (
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Until waits until a condition is true. It asks every few milliseconds, and fails the test after
// 10 s.
func Until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); !condition(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited 10 s until %s", what)
		}
	}
}

// As runs f on a thread with a user, a group and nothing but some capabilities, numbered as in
// linux/capability.h. f must not start goroutines, nor end the test.
func As(t *testing.T, uid, gid int, f func(), capabilities ...int) {
	t.Helper()
	Root(t)
	as(t, "", uid, gid, f, capabilities)
}

// As runs f on the host, and is otherwise the function As.
func (h *Host) As(uid, gid int, f func(), capabilities ...int) {
	h.t.Helper()
	as(h.t, h.Netns(), uid, gid, f, capabilities)
}

func as(t *testing.T, netns string, uid, gid int, f func(), capabilities []int) {
	t.Helper()
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // and not unlocked: the thread ends with the goroutine
		err := enter(netns)
		if err == nil {
			err = become(uid, gid, capabilities)
		}
		if err == nil {
			f()
		}
		failed <- err
	}()
	if err := <-failed; err != nil {
		t.Fatalf("become uid %d: %v", uid, err)
	}
}

func enter(netns string) error {
	if netns == "" {
		return nil
	}
	ns, err := os.Open(netns)
	if err != nil {
		return err
	}
	defer ns.Close()
	return unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
}

// become changes the calling thread alone: the system calls are those of threads, unlike package
// syscall's.
func become(uid, gid int, capabilities []int) error {
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
		return errno
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid)); errno != 0 {
		return errno
	}
	if err := unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
		return errno
	}
	var data [2]unix.CapUserData
	for _, c := range capabilities {
		data[c/32].Effective |= 1 << (c % 32)
		data[c/32].Permitted |= 1 << (c % 32)
	}
	return unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0])
}
