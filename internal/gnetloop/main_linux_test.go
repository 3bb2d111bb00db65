//go:build live

package gnetloop

import (
	"encoding/binary"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/streamtest"
)

var addresses atomic.Uint32

// newAddr returns an address of 127.0.0.0/8, port 0, that no other test of
// this process has and none of another process is likely to have.
func newAddr() netip.AddrPort {
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], 127<<24|(base+addresses.Add(1))%0xfffffe+1)
	return netip.AddrPortFrom(netip.AddrFrom4(a), 0)
}

var base = rand.Uint32N(1 << 24)

func newEngine(t testing.TB, o Options) *Engine {
	t.Helper()
	if o.Name == "" {
		o.Name = "test"
	}
	if onLoops && o.Loops == nil {
		o.Loops = newLoops(t, o.EventLoops, o.ReadBuffer)
	}
	e, err := New(o)
	streamtest.Must(t, err)
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// onLoops has newEngine make engines on Loops: see TestAllOnLoops.
var onLoops = os.Getenv("RDS_TEST_LOOPS") != ""

func newLoops(t testing.TB, n, buffer int) *Loops {
	t.Helper()
	ls, err := NewLoops(n, buffer)
	streamtest.Must(t, err)
	t.Cleanup(func() { _ = ls.Close() })
	return ls
}

// TestAllOnLoops runs the tests of this package once more, with engines on Loops.
func TestAllOnLoops(t *testing.T) {
	t.Parallel()
	if onLoops {
		t.Skip("this is the second run")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.short", "-test.v")
	cmd.Env = append(os.Environ(), "RDS_TEST_LOOPS=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// listen returns an address that e listens on, and what comes there.
func listen(t testing.TB, e *Engine) (netip.AddrPort, <-chan *Conn) {
	t.Helper()
	accepted := make(chan *Conn, 100)
	ln, err := e.Listen(newAddr(), func(c *Conn) { accepted <- c })
	streamtest.Must(t, err)
	return ln.Addr(), accepted
}

// connect returns the two ends of a connection of e's, not started.
func connect(t testing.TB, e *Engine) (a, b *Conn) {
	t.Helper()
	addr, accepted := listen(t, e)
	a, err := e.Dial(t.Context(), newAddr(), addr)
	streamtest.Must(t, err)
	return a, streamtest.Receive(t, accepted)
}

// rawPeer connects a plain socket to e and returns it with the connection that
// was accepted, not started.
func rawPeer(t testing.TB, e *Engine) (*net.TCPConn, *Conn) {
	t.Helper()
	addr, accepted := listen(t, e)
	return dial(t, addr), streamtest.Receive(t, accepted)
}

// dial connects a plain socket.
func dial(t testing.TB, to netip.AddrPort) *net.TCPConn {
	t.Helper()
	c, err := net.DialTCP("tcp4", nil, net.TCPAddrFromAddrPort(to))
	streamtest.Must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// startedPeer is rawPeer with the connection started, its handler a recorder.
func startedPeer(t testing.TB, e *Engine) (*net.TCPConn, *Conn, *streamtest.Recorder) {
	t.Helper()
	peer, c := rawPeer(t, e)
	r := streamtest.NewRecorder(t)
	start(t, c, r)
	return peer, c, r
}

func write(t testing.TB, c net.Conn, b []byte) {
	t.Helper()
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
}

// settle waits until the peer's socket has all that was written to c, so that
// it comes in as few reads as there can be.
func settle(t testing.TB, c *net.TCPConn) {
	t.Helper()
	raw, err := c.SyscallConn()
	streamtest.Must(t, err)
	streamtest.Eventually(t, "all is acknowledged", func() (sent bool) {
		_ = raw.Control(func(fd uintptr) { n, errno := outq(int(fd)); sent = errno == 0 && n == 0 })
		return sent
	})
}

func option(t testing.TB, c *Conn, level, opt int) int {
	t.Helper()
	v, err := unix.GetsockoptInt(c.fd, level, opt)
	streamtest.Must(t, err)
	return v
}

func start(t testing.TB, c *Conn, r *streamtest.Recorder) {
	t.Helper()
	streamtest.Must(t, c.Start(r))
}
