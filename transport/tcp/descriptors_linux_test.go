package tcp

import (
	"errors"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/transporttest"
)

// exhaust leaves the process without a free descriptor until free is called.
func exhaust(t *testing.T) (free func()) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	low := old
	low.Cur = 100
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	var files []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		files = append(files, f)
	}
	free = sync.OnceFunc(func() {
		for _, f := range files {
			_ = f.Close()
		}
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &old)
	})
	t.Cleanup(free)
	return free
}

// A process out of descriptors goes on accepting when it has some again.
func TestAcceptSurvivesDescriptorShortage(t *testing.T) {
	log, entries := watchLog()
	tr := newTransport(t, Options{Logger: log})
	addr := newAddr()
	accepted := make(chan transport.Link, 1)
	if err := tr.Listen(addr, func(l transport.Link) { accepted <- l }); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)

	free := exhaust(t)
	if err := unix.Connect(fd, &unix.SockaddrInet4{Addr: addr.As4(), Port: int(testPort)}); err != nil {
		t.Fatal(err)
	}
	if e := receive(t, entries); e.Message != "cannot accept" {
		t.Errorf("logged %q", e.Message)
	}
	eventually(t, "several attempts", func() bool { return tr.acceptErrors.Load() >= 3 })
	if len(entries) != 0 || len(accepted) != 0 {
		t.Error("logged again, or accepted")
	}
	free()
	l := receive(t, accepted)
	if e := receive(t, entries); e.Message != "accepting again" {
		t.Errorf("logged %q", e.Message)
	}
	l.Close(transport.Drain)
}

// Links that come and go leave no descriptor behind.
func TestNoDescriptorLeak(t *testing.T) {
	count := func() int {
		d, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip(err)
		}
		return len(d)
	}
	before := count()
	e := newEnv(t, Options{}, Options{})
	accepted := e.Accepted(t)
	for i := range 100 {
		a, b := e.Dial(t, accepted)
		switch i % 4 {
		case 0:
			a.Close(transport.Abort)
			b.Close(transport.Drain)
			continue
		case 1: // the transports close it
			continue
		}
		p := transporttest.Start(t, a, b)
		if i%4 == 2 {
			p.A.Link.Close(transport.Abort)
			p.B.Link.Close(transport.Abort)
		} else {
			p.A.Send(t, 200000)
			p.A.Link.Close(transport.Drain)
		}
		p.RecA.WaitClosed(t)
		p.RecB.WaitClosed(t)
	}
	if err := errors.Join(e.A.Close(), e.B.Close()); err != nil {
		t.Fatal(err)
	}
	// Descriptors of package net are closed after their last goroutine has left.
	eventually(t, "descriptors are closed", func() bool { return count() <= before })
}

// A link that cannot be enrolled ends like any other.
func TestStartWithoutDescriptors(t *testing.T) {
	e := newEnv(t, Options{}, Options{})
	a, b := e.Dial(t, e.Accepted(t))
	rec := transporttest.NewRecorder(t)
	free := exhaust(t)
	if _, err := e.A.Dial(t.Context(), e.AddrA, e.AddrB, 0); !errors.Is(err, unix.EMFILE) {
		t.Errorf("Dial: %v", err)
	}
	if tr, err := New(Options{}); !errors.Is(err, unix.EMFILE) || tr != nil {
		t.Errorf("New: %v", err)
	}
	if err := a.Start(rec); err != nil {
		t.Fatal(err)
	}
	if _, cause := rec.WaitClosed(t); !errors.Is(cause, unix.EMFILE) {
		t.Errorf("Closed(%v)", cause)
	}
	free()
	b.Close(transport.Drain)
}
