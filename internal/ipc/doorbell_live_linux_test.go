//go:build live

package ipc

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sleeper is one side of a ring as sessions and clients write it: it works,
// sleeps when it cannot, and wakes the other.
type sleeper struct {
	mine, theirs Flag
	ear          *Ear
	bell         *Bell
	sleeps       int
}

// published follows the store of an index.
func (s *sleeper) published() {
	if s.theirs.Take() {
		s.bell.Ring()
	}
}

// wait sleeps until again finds something to do.
func (s *sleeper) wait(again func() (int, error)) error {
	for {
		s.mine.Set()
		n, err := again()
		if err != nil {
			return err
		}
		if n > 0 {
			s.mine.Clear()
			return nil
		}
		s.sleeps++
		if err := s.ear.Wait(); err != nil {
			return err
		}
	}
}

// produce puts numbers into a ring, some at a time, and counts them.
func (s *sleeper) produce(p Producer, n uint64, produced *atomic.Uint64) error {
	rng := rand.New(rand.NewPCG(1, 1))
	for seq := uint64(0); seq < n; {
		free, err := p.Free(1)
		if err == nil && free == 0 {
			err = s.wait(func() (int, error) { return p.Free(1) })
			free, _ = p.Free(1)
		}
		if err != nil {
			return fmt.Errorf("producer: %w", err)
		}
		for range min(uint64(rng.IntN(free)+1), n-seq) {
			p.Put(Entry{3: mix(seq)})
			seq++
		}
		p.Publish()
		produced.Store(seq)
		s.published()
		if rng.IntN(64) == 0 {
			runtime.Gosched()
		}
	}
	return nil
}

// consume takes the numbers that produce puts, some at a time, and counts them.
func (s *sleeper) consume(c Consumer, n uint64, consumed *atomic.Uint64) error {
	rng := rand.New(rand.NewPCG(2, 2))
	for seq := uint64(0); seq < n; {
		ready, err := c.Ready()
		if err == nil && ready == 0 {
			err = s.wait(c.Refresh)
			ready, _ = c.Ready()
		}
		if err != nil {
			return fmt.Errorf("consumer: %w", err)
		}
		ready = rng.IntN(ready) + 1
		for i := range ready {
			if e := c.Peek(i); e.Token() != mix(seq) {
				return fmt.Errorf("entry %d is %#x", seq, e)
			}
			seq++
		}
		c.Next(ready)
		c.Publish()
		consumed.Store(seq)
		s.published()
	}
	return nil
}

// TestTwoSidesSleepAndWake runs a real ring with real bells. The ring is so
// small, and the sides so uneven, that both sleep all the time; when a wake-up
// is lost, they stand still until the watchdog closes their ears.
func TestTwoSidesSleepAndWake(t *testing.T) {
	t.Parallel()
	n := uint64(2_000_000)
	if testing.Short() {
		n = 200_000
	}
	r := newHeapRing(64)
	toConsumer, consumerEar := newBell(t)
	toProducer, producerEar := newBell(t)
	flags := [2]Flag{{new(atomic.Uint32)}, {new(atomic.Uint32)}}
	prod := sleeper{mine: flags[0], theirs: flags[1], ear: producerEar, bell: toConsumer}
	cons := sleeper{mine: flags[1], theirs: flags[0], ear: consumerEar, bell: toProducer}
	var produced, consumed atomic.Uint64
	end := func() { // of both sides
		_ = consumerEar.Close()
		_ = producerEar.Close()
	}
	watchdog := time.AfterFunc(time.Minute, func() {
		t.Errorf("stood still after %d entries put and %d taken", produced.Load(), consumed.Load())
		end()
	})
	defer watchdog.Stop()
	var wg sync.WaitGroup
	for _, side := range []func() error{
		func() error { return prod.produce(r.producer(), n, &produced) },
		func() error { return cons.consume(r.consumer(), n, &consumed) },
	} {
		wg.Go(func() {
			if err := side(); err != nil {
				t.Error(err)
				end()
			}
		})
	}
	wg.Wait()
	t.Logf("%d entries, the producer slept %d times, the consumer %d times", n, prod.sleeps, cons.sleeps)
	if prod.sleeps+cons.sleeps < int(n/10_000) {
		t.Errorf("they slept %d and %d times only: nothing was tested", prod.sleeps, cons.sleeps)
	}
}

// The other side owns the file behind its ear: it may set what it likes on it,
// and not listen. Ringing must go on without waiting.
func TestRingNeverWaits(t *testing.T) {
	t.Parallel()
	bell, ear := newBell(t)
	file := ear.File()
	must(t, unix.SetNonblock(int(file.Fd()), false))
	must(t, unix.SetsockoptInt(int(file.Fd()), unix.SOL_SOCKET, unix.SO_RCVBUF, 1))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 100_000 {
			bell.Ring()
		}
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		_ = ear.Close()
		<-done
		t.Fatal("ringing waited")
	}
	if n, err := unix.IoctlGetInt(int(file.Fd()), unix.TIOCINQ); err != nil || n < 1 || n > 64 {
		t.Errorf("%d rings are kept (%v), want a handful", n, err)
	}
	if err := unix.Send(int(file.Fd()), []byte("x"), unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT); err != unix.EPIPE {
		t.Errorf("something can be sent to the bell: %v", err)
	}
}

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
	must(t, unix.SetNonblock(int(ear.File().Fd()), false))
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
