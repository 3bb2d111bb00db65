package tcp

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/transporttest"
)

// Accept and close at once is how Linux refuses (net/rds/tcp_listen.c).
func TestPeerThatClosesAtOnce(t *testing.T) {
	for _, linger := range []bool{false, true} {
		tr := newTransport(t, Options{})
		addr := newAddr()
		ln, err := net.Listen("tcp4", netip.AddrPortFrom(addr, testPort).String())
		if err != nil {
			t.Fatal(err)
		}
		l, err := tr.Dial(t.Context(), newAddr(), addr, 0)
		if err != nil {
			t.Fatal(err)
		}
		c, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if linger {
			_ = c.(*net.TCPConn).SetLinger(0)
		}
		_ = c.Close()
		_ = ln.Close()
		rec := transporttest.NewRecorder(t)
		if err := l.Start(rec); err != nil {
			t.Fatal(err)
		}
		msg := (&transporttest.Sender{}).Next(100)
		for {
			if _, err := l.Writev(msg); err != nil {
				break // sooner or later, and no panic
			}
		}
		rec.WaitClosed(t)
	}
}

// When the write finds out first, its error is returned and Closed tells it too.
func TestWriteErrorEndsLink(t *testing.T) {
	// The loop is kept busy in the handler, so that it cannot notice the reset.
	inside, gate := make(chan struct{}), make(chan struct{})
	c, l, rec := rawPeer(t, Options{}, func(*wire.Header, []byte) { close(inside); <-gate })
	var s transporttest.Sender
	write(t, c, messages(&s, 1))
	receive(t, inside)
	_ = c.SetLinger(0)
	_ = c.Close()
	msg := (&transporttest.Sender{}).Next(100)
	var err error
	for err == nil {
		_, err = l.Writev(msg)
	}
	if !errors.Is(err, unix.ECONNRESET) && !errors.Is(err, unix.EPIPE) {
		t.Errorf("Writev: %v", err)
	}
	if _, again := l.Writev(msg); !errors.Is(again, transport.ErrClosed) {
		t.Errorf("next Writev: %v", again)
	}
	close(gate)
	if _, cause := rec.WaitClosed(t); cause != err {
		t.Errorf("Closed(%v), expected %v", cause, err)
	}
}

// Acked counts what the peer's TCP has, whether or not anybody read it.
func TestAckedIsTheKernels(t *testing.T) {
	c, l, rec := rawPeer(t, Options{}, nil)
	s := transporttest.Sender{Link: l, Rec: rec}
	s.Send(t, 1000, 2000)
	eventually(t, "all is acknowledged", func() bool { return l.Acked() == s.Sent() })
	b := make([]byte, wire.HeaderSize)
	if _, err := io.ReadFull(c, b); err != nil || binary.BigEndian.Uint32(b[16:]) != 1000 {
		t.Errorf("the peer read % x, %v", b, err)
	}
	_ = c.SetLinger(0)
	_ = c.Close()
	if acked, _ := rec.WaitClosed(t); acked != s.Sent() {
		t.Errorf("Closed with %d acknowledged, of %d", acked, s.Sent())
	}
}

// Starting from an event loop must not wait for that loop.
func TestStartFromHandler(t *testing.T) {
	e := newEnv(t, Options{EventLoops: 1}, Options{EventLoops: 1})
	accepted := e.Accepted(t)
	a1, b1 := e.Dial(t, accepted)
	a2, b2 := e.Dial(t, accepted)
	recA, recB, first := transporttest.NewRecorder(t), transporttest.NewRecorder(t), transporttest.NewRecorder(t)
	first.OnMessage = func(*wire.Header, []byte) {
		if err := errors.Join(a2.Start(recA), b2.Start(recB)); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(a1.Start(transporttest.NewRecorder(t)), b1.Start(first)); err != nil {
		t.Fatal(err)
	}
	(&transporttest.Sender{Link: a1}).Send(t, 1)
	first.WaitMessages(t, 1)
	(&transporttest.Sender{Link: a2, Rec: recA}).Send(t, 1)
	recB.WaitMessages(t, 1)
}

func TestDialEndsWithTransport(t *testing.T) {
	// A listener whose queue is full answers no more connects.
	addr := newAddr()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: addr.As4(), Port: int(testPort)}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	filler := newTransport(t, Options{})
	for i := 0; ; i++ {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err := filler.Dial(ctx, newAddr(), addr, 0)
		cancel()
		if err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			break
		}
		if i == 10 {
			t.Skip("the listen queue does not fill up")
		}
	}
	tr := newTransport(t, Options{})
	failed := make(chan error, 1)
	go func() {
		_, err := tr.Dial(context.Background(), newAddr(), addr, 0)
		failed <- err
	}()
	_ = tr.Close()
	if err := receive(t, failed); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("Dial: %v", err)
	}
}

// Whatever is called while a link ends, from however many goroutines, finds
// its own socket or none.
func TestEverythingAtOnce(t *testing.T) {
	e := newEnv(t, Options{}, Options{})
	accepted := e.Accepted(t)
	for i := range 50 {
		a, b := e.Dial(t, accepted)
		recA, recB := transporttest.NewRecorder(t), transporttest.NewRecorder(t)
		s := transporttest.Sender{Link: a}
		var wg sync.WaitGroup
		wg.Go(func() { _ = a.Start(recA) })
		wg.Go(func() { _ = b.Start(recB) })
		wg.Go(func() {
			for range 20 {
				msg := s.Next(3000)
				if n, err := a.Writev(msg); err != nil || transporttest.Skip(msg, n) != nil {
					return
				}
			}
		})
		var done atomic.Bool
		var look sync.WaitGroup
		look.Go(func() {
			for last := uint64(0); !done.Load(); {
				n := a.Acked()
				if st := a.Stats(); n < last || st.Acked > st.Written {
					t.Errorf("Acked %d after %d, Stats %+v", n, last, st)
				}
				last = n
			}
		})
		for j := range 3 {
			l, mode := []transport.Link{a, b, a}[(i+j)%3], transport.CloseMode((i+j)%2)
			wg.Go(func() { l.Close(mode) })
		}
		wg.Wait()
		b.Close(transport.Abort)
		done.Store(true)
		look.Wait()
	}
	if err := errors.Join(e.A.Close(), e.B.Close()); err != nil {
		t.Error(err)
	}
}

func TestCountersCount(t *testing.T) {
	e := newEnv(t, Options{}, Options{})
	a, b := e.Dial(t, e.Accepted(t))
	rec := transporttest.NewRecorder(t)
	if err := a.Start(rec); err != nil {
		t.Fatal(err)
	}
	s := transporttest.Sender{Link: a}
	for {
		msg := s.Next(200000)
		n, err := a.Writev(msg)
		if err != nil {
			t.Fatal(err)
		}
		if transporttest.Skip(msg, n) != nil {
			break
		}
	}
	if err := b.Start(transporttest.NewRecorder(t)); err != nil {
		t.Fatal(err)
	}
	rec.WaitWritable(t)
	b.Close(transport.Abort)
	rec.WaitClosed(t)
	got := make(map[string]uint64)
	for _, tr := range []transport.Transport{e.A, e.B} {
		for _, c := range tr.Stats() {
			got[c.Name] += c.Value
		}
	}
	if got["tcp_sndbuf_full"] != 1 || got["tcp_write_space_calls"] != 1 || got["tcp_data_ready_calls"] == 0 ||
		got["tcp_accept_errors"] != 0 || len(got) != 6 {
		t.Errorf("counters: %v", got)
	}
	if e.A.Name() != "tcp" {
		t.Errorf("Name() = %q", e.A.Name())
	}
}
