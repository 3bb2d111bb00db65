//go:build !live

package ipc

import (
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// inGoPoller tells whether a descriptor is in an epoll instance of this process.
func inGoPoller(t *testing.T, fd int) bool {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		t.Fatal(err)
	}
	ino := " ino:" + strings.ToLower(hex(st.Ino)) + " "
	for _, e := range entries {
		if at, _ := os.Readlink("/proc/self/fd/" + e.Name()); at != "anon_inode:[eventpoll]" {
			continue
		}
		if info, err := os.ReadFile("/proc/self/fdinfo/" + e.Name()); err == nil && strings.Contains(string(info), ino) {
			return true
		}
	}
	return false
}

func hex(n uint64) string {
	const digits = "0123456789abcdef"
	s := ""
	for ; n > 0; n /= 16 {
		s = string(digits[n%16]) + s
	}
	return s
}

// An ear that an event loop watches is not in Go's poller, which would wake a thread of its own
// with each ring: not when it was made, nor when it was received.
func TestWatchedEarIsNotInGoPoller(t *testing.T) {
	bell, ear, err := NewWatchedBell()
	if err != nil {
		t.Fatal(err)
	}
	defer bell.Close()
	if inGoPoller(t, ear.FD()) {
		t.Error("the new ear is in Go's poller")
	}
	f, err := ear.Duplicate()
	if err != nil {
		t.Fatal(err)
	}
	if err := ear.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := OpenWatchedEar(f)
	if err != nil {
		t.Fatal(err)
	}
	if inGoPoller(t, again.FD()) {
		t.Error("the received ear is in Go's poller")
	}
	other, waited, err := NewBell() // to see that the test can fail
	if err != nil {
		t.Fatal(err)
	}
	_ = waited.rc.Control(func(fd uintptr) {
		if !inGoPoller(t, int(fd)) {
			t.Error("an ear to wait at is not found in Go's poller: nothing was tested")
		}
	})
	_ = other.Close()
	_ = waited.Close()
	runtime.KeepAlive(waited)
	if err := again.Take(); err != nil {
		t.Errorf("nobody has rung: %v", err)
	}
	bell.Ring()
	bell.Ring()
	if err := again.Take(); err != nil {
		t.Error(err)
	}
	if n, err := unix.IoctlGetInt(again.FD(), unix.TIOCINQ); n != 0 || err != nil {
		t.Errorf("%d rings are left: %v", n, err)
	}
	_ = bell.Close()
	if err := again.Take(); err != io.EOF {
		t.Errorf("no bell is left: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// The flags that an application can set on its end of the doorbell do not make Take wait.
func TestTakeNeverWaits(t *testing.T) {
	bell, ear, err := NewWatchedBell()
	if err != nil {
		t.Fatal(err)
	}
	defer bell.Close()
	if err := unix.SetNonblock(ear.FD(), false); err != nil {
		t.Fatal(err)
	}
	if err := ear.Take(); err != nil {
		t.Error(err)
	}
	if n := testing.AllocsPerRun(100, func() { bell.Ring(); _ = ear.Take() }); n != 0 {
		t.Errorf("%v allocations for a ring", n)
	}
	_ = ear.Close()
}
