//go:build live

package gnetloop

import (
	"net"
	"net/netip"
	"testing"

	"github.com/rds-go/rds/internal/streamtest"
)

// caller connects to a listener, and hears which engine accepts it.
type caller struct {
	*testing.T
	to   netip.AddrPort
	came chan string // names of engines, as they accept
}

// accept is what the engine of this name does with connections.
func (c *caller) accept(name string) func(*Conn) {
	return func(conn *Conn) {
		c.came <- name
		conn.Close(0)
	}
}

// connect connects, and sends something at once.
func (c *caller) connect() {
	c.Helper()
	write(c, dial(c, c.to), []byte("waits"))
}

func (c *caller) heard(want string) {
	c.Helper()
	if name := streamtest.Receive(c, c.came); name != want {
		c.Fatalf("%s has accepted, want %s", name, want)
	}
}

func (c *caller) silence(when string) {
	c.Helper()
	if len(c.came) > 0 {
		c.Fatalf("accepted %s", when)
	}
}

// What connects while an engine is paused is not refused: it waits, with what it sends, for
// the engine to resume, or for another engine with the same socket, which accepts nothing
// before it may.
func TestPassedListener(t *testing.T) {
	t.Parallel()
	c := &caller{T: t, came: make(chan string, 16)}
	first := newEngine(t, Options{EventLoops: 1})
	ln, err := first.Listen(newAddr(), c.accept("first"))
	streamtest.Must(t, err)
	c.to = ln.Addr()
	c.connect()
	c.heard("first")
	first.Pause()
	c.connect()
	c.silence("in a pause")
	first.Resume()
	c.heard("first")

	first.Pause()
	c.connect()
	begin := make(chan struct{})
	second := newEngine(t, Options{EventLoops: 1, Inherited: &Inheritance{Begin: begin, Listener: passed(t, first, ln)}})
	if _, err := second.Listen(ln.Addr(), c.accept("second")); err != nil {
		t.Fatal(err)
	}
	streamtest.Must(t, first.Close())
	c.connect()
	c.silence("before it may")
	close(begin)
	c.heard("second")
	c.heard("second")
}

// passed gives away e's only socket, which is ln's.
func passed(t *testing.T, e *Engine, ln *Listener) func(local netip.AddrPort) *net.TCPListener {
	t.Helper()
	all, err := e.Listening()
	if err != nil || len(all) != 1 || all[0].Local != ln.Addr() {
		t.Fatalf("%+v, %v", all, err)
	}
	return func(local netip.AddrPort) *net.TCPListener {
		if local != ln.Addr() {
			return nil
		}
		l, err := net.FileListener(all[0].File)
		if err != nil {
			t.Error(err)
			return nil
		}
		_ = all[0].File.Close()
		return l.(*net.TCPListener)
	}
}
