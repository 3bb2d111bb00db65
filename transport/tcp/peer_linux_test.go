//go:build live

package tcp

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/streamtest"
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
	return c, streamtest.Receive(t, accepted).(*link)
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
	streamtest.Eventually(t, "the fragment is parsed", func() bool { return l.Stats().PayloadRemaining == 500 })
	_ = c.SetLinger(0)
	_ = c.Close()
	if _, cause := rec.WaitClosed(t); !errors.Is(cause, unix.ECONNRESET) {
		t.Errorf("Closed(%v)", cause)
	}
	if n, _ := rec.Received(); n != 3 {
		t.Errorf("%d messages arrived, expected 3", n)
	}
}

// That the fragment costs little is shown in internal/frame.
func TestStalledMessageIsDropped(t *testing.T) {
	c, l, rec := rawPeer(t, Options{}, nil)
	h := wire.Header{Length: wire.MaxPayload}
	write(t, c, h.AppendTo(nil))
	write(t, c, make([]byte, 10))
	streamtest.Eventually(t, "the fragment is parsed", func() bool { return l.Stats().PayloadRemaining == wire.MaxPayload-10 })
	_ = c.Close()
	if _, cause := rec.WaitClosed(t); !errors.Is(cause, io.EOF) {
		t.Errorf("Closed(%v)", cause)
	}
	if n, _ := rec.Received(); n != 0 {
		t.Errorf("%d messages arrived", n)
	}
}
