//go:build live

package afrds

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// listenUDP stands in for an RDS socket: what is tested is how calls meet the
// poller, and a datagram socket waits, ends and reports alike.
func listenUDP(t *testing.T) (*Conn, netip.AddrPort) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	must(t, err)
	c, err := newConn(fd)
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	must(t, c.Bind(netip.MustParseAddrPort("127.0.0.1:0")))
	addr, err := c.LocalAddrPort()
	must(t, err)
	return c, addr
}

func TestMessagesCarryTheirSenderAndLength(t *testing.T) {
	a, from := listenUDP(t)
	b, to := listenUDP(t)
	buf := make([]byte, 4)
	for _, msg := range []string{"", "abcd", "abcdef"} {
		if n, err := a.SendTo([]byte(msg), to, 0); n != len(msg) || err != nil {
			t.Fatalf("send: %d, %v", n, err)
		}
		r, err := b.RecvFrom(buf, 0)
		if err != nil || !r.IsMessage() || r.From != from || r.N != min(len(msg), 4) || r.Truncated != (len(msg) > 4) {
			t.Errorf("%q: %+v, %v", msg, r, err)
		}
	}
}

func TestDontWaitReturnsAtOnceBesideABlockedCall(t *testing.T) {
	c, _ := listenUDP(t)
	blocked := make(chan error)
	go func() {
		_, err := c.RecvFrom(nil, 0)
		blocked <- err
	}()
	if _, err := c.RecvFrom(nil, MsgDontWait); !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("%v, want EAGAIN", err)
	}
	must(t, c.Close())
	if err := <-blocked; !errors.Is(err, net.ErrClosed) {
		t.Errorf("blocked receive: %v, want net.ErrClosed", err)
	}
	if _, err := c.RecvFrom(nil, MsgDontWait); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v, want net.ErrClosed", err)
	}
	if _, err := c.Poll(PollIn); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Poll after Close: %v, want net.ErrClosed", err)
	}
	if err := c.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("second Close: %v, want net.ErrClosed", err)
	}
}

func TestDeadlineEndsReceive(t *testing.T) {
	c, _ := listenUDP(t)
	must(t, c.SetReadDeadline(time.Now().Add(10*time.Millisecond)))
	if _, err := c.RecvFrom(nil, 0); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v, want os.ErrDeadlineExceeded", err)
	}
}

func TestPollTellsWhatIsReady(t *testing.T) {
	a, _ := listenUDP(t)
	b, to := listenUDP(t)
	if ev, err := b.Poll(PollIn | PollOut); ev != PollOut || err != nil {
		t.Errorf("idle: %#x, %v", ev, err)
	}
	if _, err := a.SendTo([]byte("x"), to, 0); err != nil {
		t.Fatal(err)
	}
	if ev, err := b.Poll(PollIn | PollOut); ev != PollIn|PollOut || err != nil {
		t.Errorf("with a message: %#x, %v", ev, err)
	}
}

func TestBufferSizesReadAsSet(t *testing.T) {
	c, _ := listenUDP(t)
	must(t, errors.Join(c.SetSendBuffer(65536), c.SetReceiveBuffer(32768)))
	if n, err := c.SendBuffer(); n != 65536 || err != nil {
		t.Errorf("send buffer %d, %v", n, err)
	}
	if n, err := c.ReceiveBuffer(); n != 32768 || err != nil {
		t.Errorf("receive buffer %d, %v", n, err)
	}
}
