package ipc

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Bell is the end of a doorbell that is rung, Ear the one that is waited at.
//
// It is a pipe, where an eventfd would do and is a little faster, because the
// two ends of a pipe are separate open files: an application that makes its end
// blocking, or fills it, cannot make the daemon block in a system call. The one
// description that both sides of an eventfd share would allow just that.
type Bell struct {
	f  *os.File
	rc syscall.RawConn
}

// Ear is the waiting end of a Bell.
type Ear struct{ f *os.File }

// NewBell makes a doorbell.
func NewBell() (*Bell, *Ear, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	ear := OpenEar(os.NewFile(uintptr(p[0]), "ear"))
	bell, err := OpenBell(os.NewFile(uintptr(p[1]), "bell"))
	if err != nil {
		ear.Close()
		return nil, nil, err
	}
	return bell, ear, nil
}

// OpenBell makes a bell of a descriptor that was received, and owns it.
func OpenBell(f *os.File) (*Bell, error) {
	rc, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &Bell{f, rc}, nil
}

// OpenEar is OpenBell for the other end.
func OpenEar(f *os.File) *Ear { return &Ear{f} }

// Ring wakes whoever waits, or the next who will. A pipe that is full has been
// rung often enough.
func (b *Bell) Ring() {
	_ = b.rc.Control(ring) // fails when it was closed: nobody waits
}

var one = [1]byte{1}

func ring(fd uintptr) { _, _ = unix.Write(int(fd), one[:]) }

// Wait waits until the bell has been rung since the last Wait. It fails when
// the ear is closed, or no bell is left.
func (e *Ear) Wait() error {
	var b [64]byte
	_, err := e.f.Read(b[:])
	return err
}

// File returns the descriptor to hand over.
func (b *Bell) File() *os.File { return b.f }

// File returns the descriptor to hand over.
func (e *Ear) File() *os.File { return e.f }

// Close gives the end back.
func (b *Bell) Close() error { return b.f.Close() }

// Close gives the end back and ends a Wait.
func (e *Ear) Close() error { return e.f.Close() }
