//go:build live

package ipc

import (
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// faultingPage is memory whose first access waits until serve is called.
type faultingPage struct {
	fd  int
	mem []byte
}

// Requests of userfaultfd(2).
const (
	uffdAPI      = 0xc018aa3f // struct {api, features, ioctls}
	uffdRegister = 0xc020aa00 // struct {start, len, mode, ioctls}
	uffdZeroPage = 0xc020aa04 // struct {start, len, mode, zeropage}
	uffdMissing  = 1
)

func newFaultingPage(t *testing.T) *faultingPage {
	t.Helper()
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0)
	if errno != 0 {
		t.Skipf("needs userfaultfd for faults of the kernel (root, or sysctl vm.unprivileged_userfaultfd=1): %v", errno)
	}
	p := &faultingPage{fd: int(fd)}
	t.Cleanup(func() { unix.Close(p.fd) })
	var err error
	if p.mem, err = unix.Mmap(-1, 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS); err != nil {
		t.Fatal(err)
	}
	p.ioctl(t, uffdAPI, [4]uint64{0xaa})
	p.ioctl(t, uffdRegister, [4]uint64{uint64(uintptr(unsafe.Pointer(&p.mem[0]))), uint64(len(p.mem)), uffdMissing})
	return p
}

func (p *faultingPage) ioctl(t *testing.T, request uintptr, arg [4]uint64) {
	t.Helper()
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(p.fd), request, uintptr(unsafe.Pointer(&arg[0]))); errno != 0 {
		t.Fatalf("ioctl %#x: %v", request, errno)
	}
}

// awaitFault returns once somebody waits for the page.
func (p *faultingPage) awaitFault(t *testing.T) {
	t.Helper()
	var message [32]byte
	if _, err := unix.Read(p.fd, message[:]); err != nil {
		t.Fatal(err)
	}
}

// serve ends the wait.
func (p *faultingPage) serve(t *testing.T) {
	t.Helper()
	p.ioctl(t, uffdZeroPage, [4]uint64{uint64(uintptr(unsafe.Pointer(&p.mem[0]))), uint64(len(p.mem))})
}

// The first bells were pipes. Reading a pipe copies while it holds the pipe's
// mutex, so an application that read its ear into memory it did not provide held
// the daemon's write as long as it liked, and no signal could end that.
func TestAReaderThatFaultsDoesNotHoldTheRinger(t *testing.T) {
	t.Parallel()
	page := newFaultingPage(t)
	bell, ear := newBell(t)
	if err := unix.SetNonblock(int(ear.File().Fd()), false); err != nil {
		t.Fatal(err)
	}
	bell.Ring()
	read := make(chan error, 1)
	go func() {
		_, err := unix.Read(int(ear.File().Fd()), page.mem[:1])
		read <- err
	}()
	page.awaitFault(t)
	rung := make(chan struct{})
	go func() {
		bell.Ring()
		close(rung)
	}()
	select {
	case <-rung:
	case <-time.After(time.Minute): // nothing else ends the wait
		t.Error("ringing waits for the reader's memory")
	}
	page.serve(t)
	<-rung
	if err := <-read; err != nil {
		t.Error(err)
	}
	if err := unix.Munmap(page.mem); err != nil {
		t.Error(err)
	}
}
