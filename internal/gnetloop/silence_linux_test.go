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

	"github.com/rds-go/rds/transport"
)

// deafen has the kernel drop every segment that comes for a socket, without an answer,
// as a network does that is interrupted on the way there. The function that it returns
// ends that.
func deafen(t testing.TB, c syscall.Conn) (heal func()) {
	t.Helper()
	raw, err := c.SyscallConn()
	must(t, err)
	control := func(f func(fd int) error) {
		t.Helper()
		var failed error
		must(t, errors.Join(raw.Control(func(fd uintptr) { failed = f(int(fd)) }), failed))
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
	b := pattern(1 << 20)
	eventually(t, "the socket is full", func() bool {
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
	eventually(t, "the peer's TCP has said nothing for longer than the limit", func() bool {
		i, ok := c.TCPInfo()
		return ok && i.LastAckRecv > limit
	})
	write(t, peer, pattern(1000))
	settle(t, peer)
	deafen(t, peer)
	began := time.Now()
	if n, err := c.Writev([][]byte{pattern(100)}); n != 100 || err != nil {
		t.Fatal(n, err)
	}
	cause := receive(t, r.closed)
	if d := time.Since(began); d < limit {
		t.Errorf("after %v already", d)
	}
	if !errors.Is(cause, errSilent) || !errors.Is(cause, syscall.ETIMEDOUT) {
		t.Errorf("Closed(%v)", cause)
	}
	r.waitStream(t, pattern(1000))
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
	eventually(t, "the probes are further apart than the limit", func() bool {
		i, ok := c.TCPInfo()
		if !ok {
			t.Fatal(<-r.closed)
		}
		return i.LastAckRecv > limit*5/4
	})
	eventually(t, "a late probe is answered", func() bool { i, ok := c.TCPInfo(); return !ok || i.LastAckRecv < limit })
	if _, ok := c.TCPInfo(); !ok {
		t.Fatal(<-r.closed)
	}
	deafen(t, peer)
	if cause := receive(t, r.closed); !errors.Is(cause, errSilent) {
		t.Errorf("Closed(%v)", cause)
	}
}

// A peer that is gone while nothing is outstanding is found by keepalive's probes.
func TestIdlePeerThatIsGoneIsSilent(t *testing.T) {
	t.Parallel()
	peer, c, r := startedPeer(t, newEngine(t, Options{Silence: time.Second, KeepAliveIdle: time.Second, KeepAliveInterval: time.Second, KeepAliveCount: 1}))
	eventually(t, "a probe is answered", func() bool { i, ok := c.TCPInfo(); return ok && i.LastAckRecv > time.Second/2 })
	eventually(t, "a probe is answered", func() bool { i, ok := c.TCPInfo(); return ok && i.LastAckRecv < time.Second/2 })
	deafen(t, peer)
	began := time.Now()
	if cause := receive(t, r.closed); !errors.Is(cause, errSilent) {
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
	r := newRecorder(t)
	reading, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	r.onFeed = func([]byte) error {
		once.Do(func() {
			close(reading)
			<-goOn
		})
		return nil
	}
	start(t, c, r)
	write(t, peer, pattern(10))
	receive(t, reading)
	write(t, peer, pattern(10))
	settle(t, peer)
	deafen(t, peer)
	if n, err := c.Writev([][]byte{pattern(100)}); n != 100 || err != nil {
		t.Fatal(n, err)
	}
	eventually(t, "nothing has been answered for long", func() bool {
		i, ok := c.TCPInfo()
		if !ok {
			t.Fatal(<-r.closed)
		}
		return i.LastAckRecv > 2*limit
	})
	if c.quiet.Load() {
		t.Error("the connection has ended")
	}
	close(goOn)
	if cause := receive(t, r.closed); !errors.Is(cause, errSilent) {
		t.Errorf("Closed(%v)", cause)
	}
}

// An outage shorter than the limit costs nothing, and where the kernel bounds the time
// between retransmissions the connection goes on soon after it.
func TestShortOutageIsNoSilence(t *testing.T) {
	t.Parallel()
	peer, c, _ := startedPeer(t, newEngine(t, Options{}))
	heal := deafen(t, peer)
	if n, err := c.Writev([][]byte{pattern(100)}); n != 100 || err != nil {
		t.Fatal(n, err)
	}
	bounded := false
	if ms, err := unix.GetsockoptInt(c.fd, unix.IPPROTO_TCP, unix.TCP_RTO_MAX_MS); err == nil {
		if bounded = true; ms != int(rtoMost/time.Millisecond) {
			t.Errorf("retransmissions are at most %d ms apart", ms)
		}
	}
	eventually(t, "four retransmissions", func() bool { i, _ := c.TCPInfo(); return i.Retransmits >= 4 })
	heal()
	healed := time.Now()
	eventually(t, "it goes on", func() bool { return c.Acked() == 100 })
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
	must(t, err)
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
	must(t, err)
	defer c.Close(transport.Abort)
	for { // the first attempt's SYN may have been repeated at the same time
		peer, err := ln.AcceptTCP()
		must(t, err)
		defer peer.Close()
		if addrPort(peer.RemoteAddr()) == c.LocalAddr() {
			return
		}
	}
}
