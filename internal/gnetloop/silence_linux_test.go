//go:build live

package gnetloop

import (
	"context"
	"errors"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/streamtest"
	"github.com/rds-go/rds/transport"
)

// deafen has the kernel drop every segment that comes for a socket, without an answer,
// as a network does that is interrupted on the way there. The function that it returns
// ends that.
func deafen(t testing.TB, c syscall.Conn) (heal func()) {
	t.Helper()
	raw, err := c.SyscallConn()
	streamtest.Must(t, err)
	control := func(f func(fd int) error) {
		t.Helper()
		var failed error
		streamtest.Must(t, errors.Join(raw.Control(func(fd uintptr) { failed = f(int(fd)) }), failed))
	}
	none := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}} // of a packet keep 0 bytes
	control(func(fd int) error {
		return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(none)), Filter: &none[0]})
	})
	runtime.KeepAlive(none)
	return func() {
		control(func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0) })
	}
}

// fill writes until the socket takes no more.
func fill(t testing.TB, c *Conn) (written int) {
	t.Helper()
	b := streamtest.Pattern(1 << 20)
	streamtest.Eventually(t, "the socket is full", func() bool {
		n, err := c.Writev([][]byte{b})
		if written += n; err != nil {
			t.Fatal(err)
		}
		return n < len(b)
	})
	return written
}

// What was sent and is never answered ends the connection, after the limit and not
// earlier, however long nothing had been sent before; what the peer had sent before is
// delivered, for its TCP has the acknowledgement.
func TestUnansweredDataEndsTheConnection(t *testing.T) {
	t.Parallel()
	const limit = time.Second
	peer, c, r := startedPeer(t, newEngine(t, Options{Silence: limit}))
	streamtest.Eventually(t, "the peer's TCP has said nothing for longer than the limit", func() bool {
		i, ok := c.TCPInfo()
		return ok && i.LastAckRecv > limit
	})
	write(t, peer, streamtest.Pattern(1000))
	settle(t, peer)
	deafen(t, peer)
	began := time.Now()
	if n, err := c.Writev([][]byte{streamtest.Pattern(100)}); n != 100 || err != nil {
		t.Fatal(n, err)
	}
	cause := streamtest.Receive(t, r.Ended)
	if d := time.Since(began); d < limit {
		t.Errorf("after %v already", d)
	}
	if !errors.Is(cause, errSilent) || !errors.Is(cause, syscall.ETIMEDOUT) {
		t.Errorf("Closed(%v)", cause)
	}
	r.WaitStream(t, streamtest.Pattern(1000))
	if c.Acked() != 0 {
		t.Errorf("%d bytes are acknowledged", c.Acked())
	}
}

// A peer that does not read is not silent: its TCP answers the probes of its window,
// which the kernel sends less and less often. One that then vanishes is.
func TestPausedReaderIsNotSilent(t *testing.T) {
	t.Parallel()
	const limit = time.Second
	peer, c, r := startedPeer(t, newEngine(t, Options{Silence: limit}))
	fill(t, c)
	streamtest.Eventually(t, "the probes are further apart than the limit", func() bool {
		i, ok := c.TCPInfo()
		if !ok {
			t.Fatal(<-r.Ended)
		}
		return i.LastAckRecv > limit*5/4
	})
	streamtest.Eventually(t, "a late probe is answered", func() bool { i, ok := c.TCPInfo(); return !ok || i.LastAckRecv < limit })
	if _, ok := c.TCPInfo(); !ok {
		t.Fatal(<-r.Ended)
	}
	deafen(t, peer)
	if cause := streamtest.Receive(t, r.Ended); !errors.Is(cause, errSilent) {
		t.Errorf("Closed(%v)", cause)
	}
}

// A peer that is gone while nothing is outstanding is found by keepalive's probes.
func TestIdlePeerThatIsGoneIsSilent(t *testing.T) {
	t.Parallel()
	peer, c, r := startedPeer(t, newEngine(t, Options{Silence: time.Second, KeepAliveIdle: time.Second, KeepAliveInterval: time.Second, KeepAliveCount: 1}))
	streamtest.Eventually(t, "a probe is answered", func() bool { i, ok := c.TCPInfo(); return ok && i.LastAckRecv > time.Second/2 })
	streamtest.Eventually(t, "a probe is answered", func() bool { i, ok := c.TCPInfo(); return ok && i.LastAckRecv < time.Second/2 })
	deafen(t, peer)
	began := time.Now()
	if cause := streamtest.Receive(t, r.Ended); !errors.Is(cause, errSilent) {
		t.Errorf("Closed(%v)", cause)
	}
	if d := time.Since(began); d < time.Second {
		t.Errorf("after %v already", d)
	}
}

// Nothing is said of the peer of a connection that this process does not read: the
// kernel may throw away what the peer answers.
func TestWhoDoesNotReadDoesNotJudge(t *testing.T) {
	t.Parallel()
	const limit = time.Second
	peer, c := rawPeer(t, newEngine(t, Options{Silence: limit, EventLoops: 1}))
	r := streamtest.NewRecorder(t)
	reading, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	r.OnFeed = func([]byte) error {
		once.Do(func() {
			close(reading)
			<-goOn
		})
		return nil
	}
	start(t, c, r)
	write(t, peer, streamtest.Pattern(10))
	streamtest.Receive(t, reading)
	write(t, peer, streamtest.Pattern(10))
	settle(t, peer)
	deafen(t, peer)
	if n, err := c.Writev([][]byte{streamtest.Pattern(100)}); n != 100 || err != nil {
		t.Fatal(n, err)
	}
	streamtest.Eventually(t, "nothing has been answered for long", func() bool {
		i, ok := c.TCPInfo()
		if !ok {
			t.Fatal(<-r.Ended)
		}
		return i.LastAckRecv > 2*limit
	})
	if c.quiet.Load() {
		t.Error("the connection has ended")
	}
	close(goOn)
	if cause := streamtest.Receive(t, r.Ended); !errors.Is(cause, errSilent) {
		t.Errorf("Closed(%v)", cause)
	}
}

// An outage shorter than the limit costs nothing, and where the kernel bounds the time
// between retransmissions the connection goes on soon after it.
func TestShortOutageIsNoSilence(t *testing.T) {
	t.Parallel()
	peer, c, _ := startedPeer(t, newEngine(t, Options{}))
	heal := deafen(t, peer)
	if n, err := c.Writev([][]byte{streamtest.Pattern(100)}); n != 100 || err != nil {
		t.Fatal(n, err)
	}
	bounded := false
	if ms, err := unix.GetsockoptInt(c.fd, unix.IPPROTO_TCP, unix.TCP_RTO_MAX_MS); err == nil {
		if bounded = true; ms != int(rtoMost/time.Millisecond) {
			t.Errorf("retransmissions are at most %d ms apart", ms)
		}
	}
	streamtest.Eventually(t, "four retransmissions", func() bool { i, _ := c.TCPInfo(); return i.Retransmits >= 4 })
	heal()
	healed := time.Now()
	streamtest.Eventually(t, "it goes on", func() bool { return c.Acked() == 100 })
	if d := time.Since(healed); bounded && d > 2*time.Second {
		t.Errorf("%v after the outage", d)
	}
}

// Of SYNs that a network drops one is sent again before the kernel would: the first
// attempt's is repeated after a second, with growing intervals, a fresh one has its own.
func TestLostSYNIsSentAfresh(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	lc.SetMultipathTCP(false) // whose sockets take no filter
	listener, err := lc.Listen(t.Context(), "tcp4", newAddr().String())
	streamtest.Must(t, err)
	defer listener.Close()
	ln := listener.(*net.TCPListener)
	heal := deafen(t, ln)
	e := newEngine(t, Options{})
	var attempts atomic.Int32
	c, err := Insist(t.Context(), func(ctx context.Context) (*Conn, error) {
		if attempts.Add(1) == 3 {
			heal()
		}
		return e.Dial(ctx, newAddr(), addrPort(ln.Addr()))
	})
	streamtest.Must(t, err)
	defer c.Close(transport.Abort)
	for { // the first attempt's SYN may have been repeated at the same time
		peer, err := ln.AcceptTCP()
		streamtest.Must(t, err)
		defer peer.Close()
		if addrPort(peer.RemoteAddr()) == c.LocalAddr() {
			return
		}
	}
}
