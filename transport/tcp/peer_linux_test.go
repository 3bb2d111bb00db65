//go:build live

package tcp

import (
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
	rec := transporttest.NewRecorder(t)
	rec.OnMessage = onMessage
	c, l := rawPeerOf(t, o, rec)
	return c, l, rec
}

// rawPeerOf is rawPeer with a handler.
func rawPeerOf(t *testing.T, o Options, h transport.Handler) (*net.TCPConn, *link) {
	t.Helper()
	tr := newTransport(t, o)
	addr := newAddr()
	accepted := make(chan transport.Link, 1)
	if err := tr.Listen(addr, func(l transport.Link) {
		if err := l.Start(h); err != nil {
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
	return c, receive(t, accepted).(*link)
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
		f := s.Next(n)
		b = append(append(b, f.Head...), f.Body...)
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
	if _, cause := rec.WaitClosed(t); !errors.Is(cause, unix.ECONNRESET) {
		t.Errorf("Closed(%v)", cause)
	}
	if n, _ := rec.Received(); n != 3 {
		t.Errorf("%d messages arrived, expected 3", n)
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
			if _, cause := rec.WaitClosed(t); !errors.Is(cause, tt.want) {
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
	if _, cause := rec.WaitClosed(t); !errors.Is(cause, io.EOF) {
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
