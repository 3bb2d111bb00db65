package gnetloop

import (
	"net"
	"net/netip"
	"testing"
	"time"
)

// What connects while an engine is paused is not refused: it waits, with what it sends, for
// the engine to resume, or for another engine with the same socket, which accepts nothing
// before it may.
func TestPassedListener(t *testing.T) {
	t.Parallel()
	newEngine := func(in *Inheritance) *Engine {
		t.Helper()
		e, err := New(Options{Name: "test", EventLoops: 1, Inherited: in})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		return e
	}
	came := make(chan string, 16)
	accept := func(who string) func(*Conn) {
		return func(c *Conn) {
			came <- who
			c.Close(0)
		}
	}
	first := newEngine(nil)
	ln, err := first.Listen(netip.MustParseAddrPort("127.0.0.1:0"), accept("first"))
	if err != nil {
		t.Fatal(err)
	}
	connect := func() {
		t.Helper()
		c, err := net.DialTimeout("tcp", ln.Addr().String(), 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := c.Write([]byte("waits")); err != nil {
			t.Fatal(err)
		}
	}
	heard := func(want string) {
		t.Helper()
		select {
		case who := <-came:
			if who != want {
				t.Fatalf("%s has accepted, want %s", who, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s has not accepted", want)
		}
	}
	connect()
	heard("first")
	first.Pause()
	connect()
	if len(came) > 0 {
		t.Fatal("accepted in a pause")
	}
	first.Resume()
	heard("first")

	first.Pause()
	connect()
	passed, err := first.Listening()
	if err != nil || len(passed) != 1 || passed[0].Local != ln.Addr() {
		t.Fatalf("%+v, %v", passed, err)
	}
	begin := make(chan struct{})
	second := newEngine(&Inheritance{Begin: begin, Listener: func(local netip.AddrPort) *net.TCPListener {
		if local != ln.Addr() {
			return nil
		}
		l, err := net.FileListener(passed[0].File)
		if err != nil {
			t.Error(err)
			return nil
		}
		_ = passed[0].File.Close()
		return l.(*net.TCPListener)
	}})
	if _, err := second.Listen(ln.Addr(), accept("second")); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	connect()
	if len(came) > 0 {
		t.Fatal("accepted before it may")
	}
	close(begin)
	heard("second")
	heard("second")
}
