package tcp

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/transporttest"
)

// rawPeer connects a plain socket to a listening transport and returns it with
// the started link that was accepted. onMessage may be nil.
func rawPeer(t *testing.T, o Options, onMessage func(*wire.Header, []byte)) (*net.TCPConn, *link, *transporttest.Recorder) {
	t.Helper()
	tr := newTransport(t, o)
	addr := newAddr()
	rec := transporttest.NewRecorder(t)
	rec.OnMessage = onMessage
	accepted := make(chan transport.Link, 1)
	if err := tr.Listen(addr, func(l transport.Link) {
		if err := l.Start(rec); err != nil {
			t.Error(err)
		}
		accepted <- l
	}); err != nil {
		t.Fatal(err)
	}
	c, err := net.DialTCP("tcp4", nil, net.TCPAddrFromAddrPort(netip.AddrPortFrom(addr, tr.opts.Port)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c, receive(t, accepted).(*link), rec
}

func receive[T any](t testing.TB, c <-chan T) (v T) {
	t.Helper()
	timeout := time.NewTimer(transporttest.Patience)
	defer timeout.Stop()
	select {
	case v = <-c:
	case <-timeout.C:
		t.Fatal("nothing came in time")
	}
	return v
}

// eventually waits for what no event announces.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(transporttest.Patience); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// messages returns the stream of messages of these sizes.
func messages(s *transporttest.Sender, sizes ...int) (b []byte) {
	for _, n := range sizes {
		for _, part := range s.Next(n) {
			b = append(b, part...)
		}
	}
	return b
}

func write(t testing.TB, c net.Conn, b []byte) {
	t.Helper()
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
}

func TestResetMidMessageDeliversWhatCameBefore(t *testing.T) {
	c, l, rec := rawPeer(t, Options{}, nil)
	var s transporttest.Sender
	b := messages(&s, 10, 1000, 0, 70000)
	write(t, c, b[:len(b)-500])
	eventually(t, "the fragment is parsed", func() bool { return l.Stats().PayloadRemaining == 500 })
	_ = c.SetLinger(0)
	_ = c.Close()
	if cause, _ := rec.WaitClosed(t); !errors.Is(cause, unix.ECONNRESET) {
		t.Errorf("Closed(%v)", cause)
	}
	if n, _ := rec.Received(); n != 3 {
		t.Errorf("%d messages arrived, expected 3", n)
	}
}

// A peer that resets after its data, as a kernel does that is shut down, does
// not take the data back: Linux keeps the receive queue readable.
func TestResetBehindDataLosesNothing(t *testing.T) {
	tr := newTransport(t, Options{})
	addr := newAddr()
	accepted := make(chan transport.Link, 1)
	if err := tr.Listen(addr, func(l transport.Link) { accepted <- l }); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp4", netip.AddrPortFrom(addr, testPort).String())
	if err != nil {
		t.Fatal(err)
	}
	l := receive(t, accepted)
	var s transporttest.Sender
	for range 5 {
		write(t, c, messages(&s, 5000, 1))
	}
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "all is sent, so that the reset overtakes nothing", func() (sent bool) {
		_ = raw.Control(func(fd uintptr) { n, _ := outq(int(fd)); sent = n == 0 })
		return sent
	})
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
	rec := transporttest.NewRecorder(t)
	if err := l.Start(rec); err != nil {
		t.Fatal(err)
	}
	if cause, _ := rec.WaitClosed(t); !errors.Is(cause, unix.ECONNRESET) {
		t.Errorf("Closed(%v)", cause)
	}
	if n, _ := rec.Received(); n != 10 {
		t.Errorf("%d messages arrived, expected 10", n)
	}
}

func TestRefusesBadStreams(t *testing.T) {
	long := wire.Header{Sequence: 2, Length: wire.MaxPayload + 1}
	padded := wire.Header{Sequence: 2, Padding: 1}
	garbage := make([]byte, 4096)
	for i := range garbage {
		garbage[i] = byte(i*7 + 129)
	}
	for _, tt := range []struct {
		name string
		good int
		b    []byte
		want error
	}{
		{"garbage", 0, garbage, transport.ErrTooLong},
		{"text", 0, []byte("GET / HTTP/1.1\r\nHost: localhost:16385\r\nAccept: */*\r\n\r\n"), transport.ErrTooLong},
		{"too long", 2, long.AppendTo(nil), transport.ErrTooLong},
		{"padding", 2, padded.AppendTo(nil), transport.ErrBadHeader},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, _, rec := rawPeer(t, Options{}, nil)
			var s transporttest.Sender
			var b []byte
			for range tt.good {
				b = append(b, messages(&s, 100)...)
			}
			write(t, c, append(b, tt.b...))
			if cause, _ := rec.WaitClosed(t); !errors.Is(cause, tt.want) {
				t.Errorf("Closed(%v), expected %v", cause, tt.want)
			}
			if n, _ := rec.Received(); n != uint64(tt.good) {
				t.Errorf("%d messages arrived, expected %d", n, tt.good)
			}
			if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
				t.Errorf("the peer read %v, expected a reset", err)
			}
		})
	}
}

// That the fragment costs little is shown in internal/frame.
func TestStalledMessageIsDropped(t *testing.T) {
	c, l, rec := rawPeer(t, Options{}, nil)
	h := wire.Header{Length: wire.MaxPayload}
	write(t, c, h.AppendTo(nil))
	write(t, c, make([]byte, 10))
	eventually(t, "the fragment is parsed", func() bool { return l.Stats().PayloadRemaining == wire.MaxPayload-10 })
	_ = c.Close()
	if cause, _ := rec.WaitClosed(t); !errors.Is(cause, io.EOF) {
		t.Errorf("Closed(%v)", cause)
	}
	if n, _ := rec.Received(); n != 0 {
		t.Errorf("%d messages arrived", n)
	}
}

// One byte at a time is as good as any other way to send a message.
func TestDribble(t *testing.T) {
	c, _, rec := rawPeer(t, Options{}, nil)
	var s transporttest.Sender
	for _, b := range messages(&s, 3, 0, 100) {
		write(t, c, []byte{b})
	}
	rec.WaitMessages(t, 3)
}

func TestDrainTimesOut(t *testing.T) {
	c, l, rec := rawPeer(t, Options{DrainTimeout: 20 * time.Millisecond}, nil)
	l.Close(transport.Drain)
	l.Close(transport.Drain)
	if cause, _ := rec.WaitClosed(t); !errors.Is(cause, transport.ErrDrainTimeout) {
		t.Errorf("Closed(%v)", cause)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the peer read %v, expected the end of the stream first", err)
	}
}

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
	if cause, _ := rec.WaitClosed(t); cause != err {
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
	if _, acked := rec.WaitClosed(t); acked != s.Sent() {
		t.Errorf("Closed with %d acknowledged, of %d", acked, s.Sent())
	}
}

// Starting from an event loop must not wait for that loop.
func TestStartFromHandler(t *testing.T) {
	e := newEnv(t, Options{EventLoops: 1}, Options{EventLoops: 1})
	accepted := e.Accepted(t)
	p := e.Again(t, accepted)
	a, b := e.Dial(t, accepted)
	recA, recB := transporttest.NewRecorder(t), transporttest.NewRecorder(t)
	p.RecB.OnMessage = func(*wire.Header, []byte) {
		if err := errors.Join(a.Start(recA), b.Start(recB)); err != nil {
			t.Error(err)
		}
	}
	p.A.Send(t, 1)
	p.RecB.WaitMessages(t, 1)
	(&transporttest.Sender{Link: a, Rec: recA}).Send(t, 1)
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
