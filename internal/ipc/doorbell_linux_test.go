//go:build !live

package ipc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRingsBeforeTheWaitEndIt(t *testing.T) {
	t.Parallel()
	bell, ear := newBell(t)
	for range 3 {
		bell.Ring()
	}
	must(t, ear.Wait())
	var none [1]byte // all three are answered
	if _, err := unix.Read(int(ear.f.Fd()), none[:]); err != unix.EAGAIN {
		t.Errorf("the bell still rings: %v", err)
	}
}

func TestWaitEndsWithTheEarOrTheBell(t *testing.T) {
	t.Parallel()
	bell, ear := newBell(t)
	end := make(chan error)
	go func() { end <- ear.Wait() }()
	_ = bell.Close()
	if err := <-end; err != io.EOF {
		t.Errorf("no bell is left: %v", err)
	}
	bell.Ring() // of a closed bell, and for nobody

	bell, ear = newBell(t)
	go func() { end <- ear.Wait() }()
	_ = ear.Close()
	if err := <-end; !errors.Is(err, os.ErrClosed) {
		t.Errorf("the ear was closed: %v", err)
	}
	bell.Ring() // no SIGPIPE, no error
}

// An application rings a bell that the daemon rings as well, to wake itself.
// They share one open file then, and its flags.
func TestASharedBellNeverWaits(t *testing.T) {
	t.Parallel()
	bell, ear := newBell(t)
	fd, err := unix.Dup(int(bell.File().Fd())) // as the application has it
	must(t, err)
	defer unix.Close(fd)
	must(t, unix.SetNonblock(fd, false))
	for unix.Send(fd, make([]byte, 1024), unix.MSG_DONTWAIT) == nil {
	}
	bell.Ring()
	must(t, ear.Wait())
}

func TestBellsAreHandedOver(t *testing.T) {
	t.Parallel()
	bell, ear := newBell(t)
	dup := func(f *os.File) *os.File {
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		must(t, err)
		return os.NewFile(uintptr(fd), "rds")
	}
	theirs, err := OpenBell(dup(bell.File()))
	must(t, err)
	listener, err := OpenEar(dup(ear.File()))
	must(t, err)
	_ = bell.Close()
	_ = ear.Close()
	theirs.Ring()
	must(t, listener.Wait())
	_ = theirs.Close()
	if err := listener.Wait(); err != io.EOF {
		t.Error(err)
	}
	_ = listener.Close()
}

func TestBellDoesNotAllocate(t *testing.T) {
	bell, ear := newBell(t)
	if n := testing.AllocsPerRun(1000, func() {
		bell.Ring()
		if err := ear.Wait(); err != nil {
			panic(fmt.Sprint(err))
		}
	}); n != 0 {
		t.Errorf("%v allocations for a ring and a wait", n)
	}
}

// Rouse ends a Wait without a ring, or the next one, and no other.
func TestRouseEndsOneWait(t *testing.T) {
	t.Parallel()
	bell, ear := newBell(t)
	end := make(chan error)
	go func() { end <- ear.Wait() }()
	ear.Rouse()
	must(t, <-end)
	ear.Rouse()
	must(t, ear.Wait())
	bell.Ring()
	must(t, ear.Wait())
	if err := ear.rc.Control(func(fd uintptr) {
		if ear.listen(fd) {
			t.Error("the wait before did not take the ring: it was roused once more")
		}
	}); err != nil {
		t.Error(err)
	}
	_ = ear.Close()
	ear.Rouse()
	if err := ear.Wait(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the ear was closed: %v", err)
	}
}

// BenchmarkBellPingPong is one wake-up in each direction: two goroutines that
// have nothing to do but ring and wait.
func BenchmarkBellPingPong(b *testing.B) {
	bell, ear, err := NewBell()
	must(b, err)
	back, echo, err := NewBell()
	must(b, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ear.Wait() == nil {
			back.Ring()
		}
	}()
	b.ReportAllocs()
	for b.Loop() {
		bell.Ring()
		must(b, echo.Wait())
	}
	bell.Close()
	<-done
	for _, c := range []interface{ Close() error }{ear, back, echo} {
		c.Close()
	}
}

// BenchmarkBellRing rings for a listener that is awake: the cost of a wake-up
// for who publishes.
func BenchmarkBellRing(b *testing.B) {
	bell, ear, err := NewBell()
	must(b, err)
	defer bell.Close()
	defer ear.Close()
	b.ReportAllocs()
	for b.Loop() {
		bell.Ring()
		must(b, ear.Wait())
	}
}

// BenchmarkFlagLowered is what a side pays per publication while the other is
// awake: one load.
func BenchmarkFlagLowered(b *testing.B) {
	f := Flag{new(atomic.Uint32)}
	b.ReportAllocs()
	for b.Loop() {
		if f.Take() {
			b.Fatal("was raised")
		}
	}
}

// inGoPoller tells whether a descriptor is in an epoll instance of this process.
func inGoPoller(t *testing.T, fd int) bool {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	var st unix.Stat_t
	must(t, unix.Fstat(fd, &st))
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
	must(t, err)
	defer bell.Close()
	if inGoPoller(t, ear.FD()) {
		t.Error("the new ear is in Go's poller")
	}
	f, err := ear.Duplicate()
	must(t, err)
	must(t, ear.Close())
	again, err := OpenWatchedEar(f)
	must(t, err)
	if inGoPoller(t, again.FD()) {
		t.Error("the received ear is in Go's poller")
	}
	other, waited, err := NewBell() // to see that the test can fail
	must(t, err)
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
	must(t, again.Take())
	if n, err := unix.IoctlGetInt(again.FD(), unix.TIOCINQ); n != 0 || err != nil {
		t.Errorf("%d rings are left: %v", n, err)
	}
	_ = bell.Close()
	if err := again.Take(); err != io.EOF {
		t.Errorf("no bell is left: %v", err)
	}
	must(t, again.Close())
}

// The flags that an application can set on its end of the doorbell do not make Take wait.
func TestTakeNeverWaits(t *testing.T) {
	bell, ear, err := NewWatchedBell()
	must(t, err)
	defer bell.Close()
	must(t, unix.SetNonblock(ear.FD(), false))
	must(t, ear.Take())
	if n := testing.AllocsPerRun(100, func() { bell.Ring(); _ = ear.Take() }); n != 0 {
		t.Errorf("%v allocations for a ring", n)
	}
	_ = ear.Close()
}
