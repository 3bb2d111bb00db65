//go:build live

package gnetloop

import (
	"errors"
	"io"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/streamtest"
	"github.com/rds-go/rds/transport"
)

// The tests here share the process's descriptors with no other: they are not
// parallel.

// exhaust leaves the process with few free descriptors until free is called.
// With none, it takes those as well that others give back meanwhile: what
// earlier tests have left to the garbage collector closes at any time.
func exhaust(t *testing.T, few int) (free func()) {
	t.Helper()
	var old unix.Rlimit
	streamtest.Must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	low := old
	low.Cur = 100
	streamtest.Must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &low))
	var files []*os.File
	take := func() {
		for {
			f, err := os.Open(os.DevNull)
			if err != nil {
				return
			}
			files = append(files, f)
		}
	}
	take()
	for _, f := range files[:few] {
		_ = f.Close()
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for few == 0 {
			select {
			case <-tick.C:
				take()
			case <-stop:
				return
			}
		}
	}()
	free = sync.OnceFunc(func() {
		close(stop)
		<-stopped
		for _, f := range files {
			_ = f.Close()
		}
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &old)
	})
	t.Cleanup(free)
	return free
}

// watchLog returns a logger and what it logs.
func watchLog() (*zap.Logger, <-chan zapcore.Entry) {
	entries := make(chan zapcore.Entry, 100)
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{}), zapcore.AddSync(io.Discard), zap.InfoLevel)
	return zap.New(core, zap.Hooks(func(e zapcore.Entry) error { entries <- e; return nil })), entries
}

// A process out of descriptors goes on accepting when it has some again.
func TestAcceptSurvivesDescriptorShortage(t *testing.T) {
	log, entries := watchLog()
	e := newEngine(t, Options{Logger: log})
	addr, accepted := listen(t, e)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	streamtest.Must(t, err)
	defer unix.Close(fd)

	free := exhaust(t, 0)
	streamtest.Must(t, unix.Connect(fd, &unix.SockaddrInet4{Addr: addr.Addr().As4(), Port: int(addr.Port())}))
	if e := streamtest.Receive(t, entries); e.Message != "cannot accept" {
		t.Errorf("logged %q", e.Message)
	}
	streamtest.Eventually(t, "several attempts", func() bool { return e.Stats().AcceptErrors >= 3 })
	if len(entries) != 0 || len(accepted) != 0 {
		t.Error("logged again, or accepted")
	}
	free()
	c := streamtest.Receive(t, accepted)
	if e := streamtest.Receive(t, entries); e.Message != "accepting again" {
		t.Errorf("logged %q", e.Message)
	}
	c.Close(transport.Drain)
}

// Connections to peers leave the last descriptors to others: one that would take them is
// refused, and those that come later, when there is room again, are taken at once.
func TestLastDescriptorsAreNotForPeers(t *testing.T) {
	var old unix.Rlimit
	streamtest.Must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	low := old
	low.Cur = 100
	streamtest.Must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &low))
	t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &old) })
	ln, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	streamtest.Must(t, err)
	defer unix.Close(ln)
	other := newAddr()
	streamtest.Must(t, errors.Join(unix.Bind(ln, &unix.SockaddrInet4{Addr: other.Addr().As4(), Port: 4000}), unix.Listen(ln, 1)))
	if half := newEngine(t, Options{EventLoops: 1, HalfOpen: 256, HalfOpenEach: 16}).half.most; half != 75/halfOpenPart {
		t.Errorf("of 75 descriptors %d half-open connections may have two each", half)
	}
	e := newEngine(t, Options{EventLoops: 1})
	if e.bound != 75 {
		t.Errorf("of 100 descriptors those from %d on are not for peers", e.bound)
	}
	addr, accepted := listen(t, e)
	var peers []int
	for e.Stats().AcceptErrors == 0 {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatalf("no descriptor is left: %v", err)
		}
		defer unix.Close(fd)
		peers = append(peers, fd)
		streamtest.Must(t, unix.Connect(fd, &unix.SockaddrInet4{Addr: addr.Addr().As4(), Port: int(addr.Port())}))
		streamtest.Eventually(t, "it is taken or refused", func() bool { return len(accepted)+int(e.Stats().AcceptErrors) == len(peers) })
	}
	if n := openDescriptors(t); n < 72 || n > 78 {
		t.Errorf("%d of 100 descriptors are open", n)
	}
	for { // a connection would find one descriptor, and have to be made to miss its second
		fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		streamtest.Must(t, err)
		defer unix.Close(fd)
		if fd >= e.bound {
			break
		}
	}
	if _, err := e.Dial(t.Context(), newAddr(), netip.AddrPortFrom(other.Addr(), 4000)); !errors.Is(err, unix.EMFILE) {
		t.Errorf("Dial: %v", err)
	}
	if fd, _, err := unix.Accept4(ln, unix.SOCK_CLOEXEC); err != unix.EAGAIN {
		t.Errorf("Dial has connected without a descriptor for it: %v", err)
		_ = unix.Close(fd)
	}
	for len(accepted) > 0 {
		streamtest.Receive(t, accepted).Close(transport.Abort)
	}
	if _, err := e.Dial(t.Context(), newAddr(), addr); err != nil {
		t.Error(err)
	}
	streamtest.Receive(t, accepted).Close(transport.Drain)
}

// A listener that waits for descriptors ends without them.
func TestListenerClosesDuringShortage(t *testing.T) {
	e := newEngine(t, Options{})
	ln, err := e.Listen(newAddr(), func(c *Conn) { c.Close(transport.Abort) })
	streamtest.Must(t, err)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	streamtest.Must(t, err)
	defer unix.Close(fd)
	free := exhaust(t, 0)
	streamtest.Must(t, unix.Connect(fd, &unix.SockaddrInet4{Addr: ln.Addr().Addr().As4(), Port: int(ln.Addr().Port())}))
	streamtest.Eventually(t, "an attempt", func() bool { return e.Stats().AcceptErrors > 0 })
	ln.Close()
	streamtest.Eventually(t, "the engine forgets it", func() bool { e.mu.Lock(); defer e.mu.Unlock(); return len(e.listeners) == 0 })
	free()
}

// Connections that come and go leave no descriptor behind.
func TestNoDescriptorLeak(t *testing.T) {
	open := func() int {
		d, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("needs /proc/self/fd: ", err)
		}
		return len(d)
	}
	before := open()
	e := newEngine(t, Options{})
	for i := range 100 {
		a, b := connect(t, e)
		switch i % 4 {
		case 0:
			a.Close(transport.Abort)
			b.Close(transport.Drain)
			continue
		case 1: // the engine closes it
			continue
		}
		ra, rb := streamtest.NewRecorder(t), streamtest.NewRecorder(t)
		start(t, a, ra)
		start(t, b, rb)
		if i%4 == 2 {
			a.Close(transport.Abort)
			b.Close(transport.Abort)
		} else {
			if _, err := a.Writev([][]byte{make([]byte, 200000)}); err != nil {
				t.Fatal(err)
			}
			a.Close(transport.Drain)
			rb.Wait(t, "some of it", func(s []byte, _ []string) bool { return len(s) > 0 })
			b.Close(transport.Drain)
		}
		streamtest.Receive(t, ra.Ended)
		streamtest.Receive(t, rb.Ended)
	}
	streamtest.Must(t, e.Close())
	_ = e.opts.Loops.Close()
	// Descriptors of package net are closed after their last goroutine has left.
	streamtest.Eventually(t, "descriptors are closed", func() bool { return open() <= before })
}

// An engine that cannot have all its descriptors keeps none.
func TestNewWithFewDescriptors(t *testing.T) {
	for few := 0; ; few++ {
		free := exhaust(t, few)
		before := openDescriptors(t)
		e, err := New(Options{Name: "test", EventLoops: 2, Congestion: "reno"})
		if err == nil {
			if used := openDescriptors(t) - before; used != 10 {
				t.Errorf("an engine of two loops has %d descriptors", used)
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		} else if !errors.Is(err, unix.EMFILE) {
			t.Errorf("with %d descriptors: %v", few, err)
		}
		if after := openDescriptors(t); after != before {
			t.Errorf("PROMISE: with %d descriptors: %d before, %d after", few, before, after)
		}
		free()
		if err == nil {
			return
		}
		if few == 30 {
			t.Fatal("30 descriptors are not enough")
		}
	}
}

// openDescriptors counts those below the limit that exhaust sets, without one
// of its own.
func openDescriptors(t *testing.T) (n int) {
	t.Helper()
	for fd := range 100 {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
			n++
		}
	}
	return n
}

// A connection that cannot be enrolled ends like any other.
func TestStartWithoutDescriptors(t *testing.T) {
	if onLoops {
		t.Skip("a connection takes no descriptor when Loops get it")
	}
	e := newEngine(t, Options{})
	addr, accepted := listen(t, e)
	a, err := e.Dial(t.Context(), newAddr(), addr)
	streamtest.Must(t, err)
	b := streamtest.Receive(t, accepted)
	r := streamtest.NewRecorder(t)
	free := exhaust(t, 0)
	if _, err := e.Dial(t.Context(), newAddr(), addr); !errors.Is(err, unix.EMFILE) {
		t.Errorf("Dial: %v", err)
	}
	if e, err := New(Options{Name: "test"}); !errors.Is(err, unix.EMFILE) || e != nil {
		t.Errorf("New: %v", err)
	}
	a.Wake() // is due, and never comes
	start(t, a, r)
	if cause := streamtest.Receive(t, r.Ended); !errors.Is(cause, unix.EMFILE) {
		t.Errorf("Closed(%v)", cause)
	}
	free()
	b.Close(transport.Drain)
}
