//go:build live

package gnetloop

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/streamtest"
	"github.com/rds-go/rds/transport"
)

// A listener tells the port it was given, and ends without the connections
// that came from it, and without its engine.
func TestListenerOfAnyPort(t *testing.T) {
	t.Parallel()
	e := newEngine(t, Options{})
	accepted := make(chan *Conn, 1)
	local := newAddr()
	ln, err := e.Listen(local, func(c *Conn) { accepted <- c })
	streamtest.Must(t, err)
	if a := ln.Addr(); a.Addr() != local.Addr() || a.Port() == 0 {
		t.Fatalf("listening on %v", a)
	}
	if _, err := e.Listen(ln.Addr(), nil); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("Listen: %v", err)
	}
	a, err := e.Dial(t.Context(), newAddr(), ln.Addr())
	streamtest.Must(t, err)
	b := streamtest.Receive(t, accepted)
	if a.LocalAddr() != b.RemoteAddr() || a.RemoteAddr() != b.LocalAddr() || a.RemoteAddr() != ln.Addr() {
		t.Errorf("%v-%v, %v-%v", a.LocalAddr(), a.RemoteAddr(), b.LocalAddr(), b.RemoteAddr())
	}
	ln.Close()
	ln.Close()
	streamtest.Eventually(t, "the engine forgets it", func() bool { e.mu.Lock(); defer e.mu.Unlock(); return len(e.listeners) == 0 })
	if _, err := e.Dial(t.Context(), newAddr(), ln.Addr()); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("Dial: %v", err)
	}
	r := streamtest.NewRecorder(t)
	start(t, a, streamtest.NewRecorder(t))
	start(t, b, r)
	if n, err := a.Writev([][]byte{{1}}); n != 1 || err != nil {
		t.Errorf("Writev: %d, %v", n, err)
	}
	r.WaitStream(t, []byte{1})
}

// The local port of a dial is ours to choose.
func TestDialFromPort(t *testing.T) {
	t.Parallel()
	e := newEngine(t, Options{})
	addr, accepted := listen(t, e)
	free, err := net.Listen("tcp4", newAddr().String())
	streamtest.Must(t, err)
	local := addrPort(free.Addr())
	if _, err := e.Dial(t.Context(), local, addr); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("Dial: %v", err)
	}
	_ = free.Close()
	c, err := e.Dial(t.Context(), netip.AddrPortFrom(netip.AddrFrom16(local.Addr().As16()), local.Port()), addr)
	streamtest.Must(t, err)
	if c.LocalAddr() != local {
		t.Errorf("from %v, expected %v", c.LocalAddr(), local)
	}
	if b := streamtest.Receive(t, accepted); b.RemoteAddr() != local {
		t.Errorf("from %v, expected %v", b.RemoteAddr(), local)
	}
}

func TestDialCanceled(t *testing.T) {
	t.Parallel()
	e := newEngine(t, Options{})
	addr, _ := listen(t, e)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Dial(ctx, newAddr(), addr); !errors.Is(err, context.Canceled) {
		t.Errorf("Dial: %v", err)
	}
	ctx, cancel = context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	if _, err := e.Dial(ctx, newAddr(), addr); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Dial: %v", err)
	}
}

// answers connects and tells whether the kernel there takes the connection. It needs
// no process for that: one that is not taken in 100 ms never is.
func answers(t *testing.T, to unix.Sockaddr) bool {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	streamtest.Must(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Connect(fd, to); err != nil && err != unix.EINPROGRESS {
		t.Fatal(err)
	}
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 100)
		if err != unix.EINTR {
			return n > 0
		}
	}
}

func TestDialEndsWithEngine(t *testing.T) {
	t.Parallel()
	// A listener whose queue is full answers no more connects.
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	streamtest.Must(t, err)
	defer unix.Close(fd)
	streamtest.Must(t, errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: newAddr().Addr().As4()}), unix.Listen(fd, 0)))
	sa, err := unix.Getsockname(fd)
	streamtest.Must(t, err)
	in4 := sa.(*unix.SockaddrInet4)
	addr := netip.AddrPortFrom(netip.AddrFrom4(in4.Addr), uint16(in4.Port))
	for i := 0; answers(t, sa); i++ {
		if i == 10 {
			t.Skip("needs a kernel that answers no SYN when the listen queue is full; this one has answered ten")
		}
	}
	e := newEngine(t, Options{})
	failed := make(chan error, 1)
	go func() {
		_, err := e.Dial(context.Background(), newAddr(), addr)
		failed <- err
	}()
	_ = e.Close()
	if err := streamtest.Receive(t, failed); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("Dial: %v", err)
	}
}

// A closed engine makes nothing any more.
func TestClosedEngine(t *testing.T) {
	t.Parallel()
	other, e := newEngine(t, Options{}), newEngine(t, Options{})
	addr, _ := listen(t, other)
	own, _ := listen(t, e)
	_ = e.Close()
	if _, err := e.Dial(t.Context(), newAddr(), addr); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("Dial: %v", err)
	}
	if ln, err := e.Listen(newAddr(), nil); err == nil || ln != nil {
		t.Errorf("Listen: %v", err)
	}
	if _, err := other.Dial(t.Context(), newAddr(), own); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("Dial: %v", err)
	}
}

func TestIPv6(t *testing.T) {
	t.Parallel()
	loopback := netip.AddrPortFrom(netip.IPv6Loopback(), 0)
	if ln, err := net.Listen("tcp6", loopback.String()); err != nil {
		t.Skip("needs the address ::1 on the loopback interface: ", err)
	} else {
		_ = ln.Close()
	}
	e := newEngine(t, Options{})
	accepted := make(chan *Conn, 1)
	ln, err := e.Listen(loopback, func(c *Conn) { accepted <- c })
	streamtest.Must(t, err)
	a, err := e.Dial(t.Context(), loopback, ln.Addr())
	streamtest.Must(t, err)
	b, r := streamtest.Receive(t, accepted), streamtest.NewRecorder(t)
	start(t, a, streamtest.NewRecorder(t))
	start(t, b, r)
	if n, err := a.Writev([][]byte{{1}}); n != 1 || err != nil {
		t.Errorf("Writev: %d, %v", n, err)
	}
	r.WaitStream(t, []byte{1})
	if got := b.RemoteAddr().Addr(); got != loopback.Addr() {
		t.Errorf("remote address %v", got)
	}
}

// What a peer sends on a connection that the kernel has made, and nobody has accepted, is
// acknowledged. Unlisten offers such connections, so that it is read; a connection that
// comes later is never made, and so nothing is acknowledged on it.
func TestUnlistenOffersWhatIsConnected(t *testing.T) {
	t.Parallel()
	e := newEngine(t, Options{})
	const first, more = 1, 5
	offered, goOn := make(chan *Conn, first+more), make(chan struct{})
	ln, err := e.Listen(newAddr(), func(c *Conn) { offered <- c; <-goOn })
	streamtest.Must(t, err)
	var peers []net.Conn
	for range first + more {
		c := dial(t, ln.Addr())
		write(t, c, []byte{1})
		peers = append(peers, c)
	}
	streamtest.Receive(t, offered) // accept is at the first one, the kernel has the others
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Unlisten()
	}()
	streamtest.Eventually(t, "Unlisten has begun", ln.last.Load)
	close(goOn)
	for range more {
		r := streamtest.NewRecorder(t)
		start(t, streamtest.Receive(t, offered), r)
		r.WaitStream(t, []byte{1})
	}
	streamtest.Receive(t, done)
	for i, c := range peers[first:] {
		_ = c.SetReadDeadline(time.Now())
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("connection %d: %v", i, err)
		}
	}
	if _, err := net.Dial("tcp4", ln.Addr().String()); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("Dial: %v", err)
	}
	e.Unlisten() // of nothing
}
