//go:build !live

package ipc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRingsBeforeTheWaitEndIt(t *testing.T) {
	t.Parallel()
	bell, ear := newBell(t)
	for range 3 {
		bell.Ring()
	}
	if err := ear.Wait(); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
	for unix.Send(fd, make([]byte, 1024), unix.MSG_DONTWAIT) == nil {
	}
	bell.Ring()
	if err := ear.Wait(); err != nil {
		t.Error(err)
	}
}

func TestBellsAreHandedOver(t *testing.T) {
	t.Parallel()
	bell, ear := newBell(t)
	dup := func(f *os.File) *os.File {
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		return os.NewFile(uintptr(fd), "rds")
	}
	theirs, err := OpenBell(dup(bell.File()))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := OpenEar(dup(ear.File()))
	if err != nil {
		t.Fatal(err)
	}
	_ = bell.Close()
	_ = ear.Close()
	theirs.Ring()
	if err := listener.Wait(); err != nil {
		t.Error(err)
	}
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
	if err := <-end; err != nil {
		t.Error(err)
	}
	ear.Rouse()
	if err := ear.Wait(); err != nil {
		t.Error(err)
	}
	bell.Ring()
	if err := ear.Wait(); err != nil {
		t.Error(err)
	}
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
