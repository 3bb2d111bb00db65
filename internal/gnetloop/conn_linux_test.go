//go:build live

package gnetloop

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/transport"
)

// Drain ends our direction behind what was written and goes on reading.
func TestDrain(t *testing.T) {
	t.Parallel()
	peer, c, r := startedPeer(t, newEngine(t, Options{}))
	if n, err := c.Writev([][]byte{{1, 2}, {}, {3}}); n != 3 || err != nil {
		t.Fatalf("Writev: %d, %v", n, err)
	}
	c.Close(transport.Drain)
	c.Close(transport.Drain)
	if _, err := c.Writev([][]byte{{4}}); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("Writev: %v", err)
	}
	if b, err := io.ReadAll(peer); err != nil || string(b) != "\x01\x02\x03" {
		t.Errorf("the peer read % x, %v", b, err)
	}
	b := pattern(1000)
	write(t, peer, b)
	_ = peer.Close()
	if cause := receive(t, r.closed); cause != io.EOF {
		t.Errorf("Closed(%v)", cause)
	}
	r.waitStream(t, b)
	if c.Written() != 3 || c.Acked() != 3 {
		t.Errorf("%d of %d bytes acknowledged", c.Acked(), c.Written())
	}
}

func TestDrainTimesOut(t *testing.T) {
	t.Parallel()
	peer, c, r := startedPeer(t, newEngine(t, Options{DrainTimeout: 20 * time.Millisecond}))
	c.Close(transport.Drain)
	if cause := receive(t, r.closed); !errors.Is(cause, transport.ErrDrainTimeout) {
		t.Errorf("Closed(%v)", cause)
	}
	if _, err := peer.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the peer read %v, expected the end of the stream first", err)
	}
}

// Abort resets, Fail resets and tells why, and the first reason counts.
func TestAbortAndFail(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		end  func(c *Conn)
		want error
	}{
		{"abort", func(c *Conn) { c.Close(transport.Abort) }, transport.ErrClosed},
		{"fail", func(c *Conn) { c.Fail(errBad) }, errBad},
		{"abort, fail", func(c *Conn) { c.Close(transport.Abort); c.Fail(errBad) }, transport.ErrClosed},
		{"drain, fail", func(c *Conn) { c.Close(transport.Drain); c.Fail(errBad) }, errBad},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			peer, c, r := startedPeer(t, newEngine(t, Options{}))
			tt.end(c)
			if cause := receive(t, r.closed); cause != tt.want {
				t.Errorf("Closed(%v)", cause)
			}
			if _, err := peer.Write(make([]byte, 1)); err == nil {
				_, err = peer.Read(make([]byte, 1))
				if err == nil {
					t.Error("the peer read something")
				}
			}
			tt.end(c) // has no effect
			if err := c.Start(r); !errors.Is(err, transport.ErrClosed) {
				t.Errorf("Start: %v", err)
			}
			if n := c.MSS(); n != 0 {
				t.Errorf("a segment of %d bytes after the end", n)
			}
		})
	}
}

// A connection that was not started has nobody to tell, and ends just so.
func TestCloseBeforeStart(t *testing.T) {
	t.Parallel()
	for _, mode := range []transport.CloseMode{transport.Drain, transport.Abort} {
		peer, c := rawPeer(t, newEngine(t, Options{}))
		if _, err := c.Writev([][]byte{{1}}); !errors.Is(err, transport.ErrClosed) {
			t.Errorf("Writev: %v", err)
		}
		c.Close(mode)
		if err := c.Start(newRecorder(t)); !errors.Is(err, transport.ErrClosed) {
			t.Errorf("Start: %v", err)
		}
		if _, err := peer.Read(make([]byte, 1)); err == nil {
			t.Error("the peer read something")
		}
	}
}

// Accept and close at once is how Linux refuses (net/rds/tcp_listen.c).
func TestPeerThatClosesAtOnce(t *testing.T) {
	t.Parallel()
	e := newEngine(t, Options{})
	for _, linger := range []int{-1, 0} {
		peer, c := rawPeer(t, e)
		_ = peer.SetLinger(linger)
		_ = peer.Close()
		r := newRecorder(t)
		start(t, c, r)
		for {
			if _, err := c.Writev([][]byte{make([]byte, 100)}); err != nil {
				break // sooner or later, and no panic
			}
		}
		receive(t, r.closed)
	}
}

// When the write finds out first, its error is returned and Closed tells it too.
func TestWriteErrorEndsConnection(t *testing.T) {
	t.Parallel()
	peer, c := rawPeer(t, newEngine(t, Options{}))
	// The loop is kept busy in the handler, so that it cannot notice the reset.
	inside, gate := make(chan struct{}), make(chan struct{})
	r := newRecorder(t)
	r.onFeed = func([]byte) error { close(inside); <-gate; return nil }
	start(t, c, r)
	write(t, peer, []byte{1})
	receive(t, inside)
	_ = peer.SetLinger(0)
	_ = peer.Close()
	msg := [][]byte{make([]byte, 100)}
	var err error
	for err == nil {
		_, err = c.Writev(msg)
	}
	if !errors.Is(err, unix.ECONNRESET) && !errors.Is(err, unix.EPIPE) {
		t.Errorf("Writev: %v", err)
	}
	if _, again := c.Writev(msg); !errors.Is(again, transport.ErrClosed) {
		t.Errorf("next Writev: %v", again)
	}
	close(gate)
	if cause := receive(t, r.closed); cause != err {
		t.Errorf("Closed(%v), expected %v", cause, err)
	}
}

// A Writev that took less than all is followed by one Writable, when there is
// room, and by no other.
func TestWritableFollowsFullSocket(t *testing.T) {
	t.Parallel()
	e := newEngine(t, Options{})
	peer, c, r := startedPeer(t, e)
	b := pattern(64 << 20)
	n, err := c.Writev([][]byte{b})
	if err != nil || n == len(b) {
		t.Fatalf("Writev: %d of %d, %v", n, len(b), err)
	}
	got := make([]byte, len(b))
	if _, err := io.ReadFull(peer, got[:n]); err != nil {
		t.Fatal(err)
	}
	receive(t, r.writable)
	for n < len(b) {
		m, err := c.Writev([][]byte{b[n:]})
		must(t, err)
		if _, err := io.ReadFull(peer, got[n:n+m]); err != nil {
			t.Fatal(err)
		}
		if n += m; n < len(b) {
			receive(t, r.writable)
		}
	}
	if string(got) != string(b) {
		t.Error("the peer read something else")
	}
	if s := e.Stats(); s.Full == 0 || s.Writables != s.Full || s.AcceptErrors != 0 {
		t.Errorf("%+v", s)
	}
}

// Of more slices than one call may carry some are left, and Writable follows.
func TestWritevOfTooManySlices(t *testing.T) {
	t.Parallel()
	_, c, r := startedPeer(t, newEngine(t, Options{}))
	bufs := make([][]byte, transport.MaxSlices+1)
	for i := range bufs {
		bufs[i] = []byte{byte(i)}
	}
	if n, err := c.Writev(bufs); n != transport.MaxSlices || err != nil {
		t.Errorf("Writev: %d, %v", n, err)
	}
	receive(t, r.writable)
}

// Acked counts what the peer's TCP has, whether or not anybody read it.
func TestAckedIsTheKernels(t *testing.T) {
	t.Parallel()
	peer, c, r := startedPeer(t, newEngine(t, Options{}))
	if n, err := c.Writev([][]byte{make([]byte, 3000)}); n != 3000 || err != nil {
		t.Fatalf("Writev: %d, %v", n, err)
	}
	eventually(t, "all is acknowledged", func() bool { return c.Acked() == 3000 })
	_ = peer.SetLinger(0)
	_ = peer.Close()
	receive(t, r.closed)
	if c.Acked() != 3000 || c.Written() != 3000 {
		t.Errorf("Closed with %d acknowledged of %d", c.Acked(), c.Written())
	}
}

// Starting from an event loop must not wait for that loop.
func TestStartFromHandler(t *testing.T) {
	t.Parallel()
	e := newEngine(t, Options{EventLoops: 1})
	peer1, first := rawPeer(t, e)
	peer2, second := rawPeer(t, e)
	r1, r2 := newRecorder(t), newRecorder(t)
	r1.onFeed = func([]byte) error { return second.Start(r2) }
	start(t, first, r1)
	write(t, peer1, []byte{1})
	write(t, peer2, []byte{2})
	r2.waitStream(t, []byte{2})
}

// Whatever is called while a connection ends, from however many goroutines,
// finds its own socket or none.
func TestEverythingAtOnce(t *testing.T) {
	t.Parallel()
	e := newEngine(t, Options{})
	for i := range 50 {
		a, b := connect(t, e)
		ra, rb := newRecorder(t), newRecorder(t)
		var wg sync.WaitGroup
		wg.Go(func() { _ = a.Start(ra) })
		wg.Go(func() { _ = b.Start(rb) })
		wg.Go(func() {
			for range 20 {
				if n, err := a.Writev([][]byte{make([]byte, 3000)}); err != nil || n < 3000 {
					return
				}
			}
		})
		var done atomic.Bool
		var look sync.WaitGroup
		look.Go(func() {
			for last := uint64(0); !done.Load(); {
				n := a.Acked()
				if n < last || n > a.Written() {
					t.Errorf("Acked %d after %d, Written %d", n, last, a.Written())
				}
				last = n
				b.Wake()
				b.MSS()
			}
		})
		for j := range 3 {
			c, mode := []*Conn{a, b, a}[(i+j)%3], transport.CloseMode((i+j)%2)
			wg.Go(func() { c.Close(mode) })
		}
		wg.Wait()
		b.Close(transport.Abort)
		done.Store(true)
		look.Wait()
	}
	must(t, e.Close())
}

// Engine.Close returns when every handler has heard the end.
func TestEngineCloseEndsConnections(t *testing.T) {
	t.Parallel()
	e := newEngine(t, Options{})
	var rs []*recorder
	for range 10 {
		a, b := connect(t, e)
		r := newRecorder(t)
		start(t, a, r)
		rs = append(rs, r)
		_ = b // is never started
	}
	must(t, errors.Join(e.Close(), e.Close()))
	for _, r := range rs {
		select {
		case cause := <-r.closed:
			var reset *net.OpError
			if cause != transport.ErrClosed && cause != io.EOF && !errors.Is(cause, unix.ECONNRESET) && !errors.As(cause, &reset) {
				t.Errorf("Closed(%v)", cause)
			}
		default:
			t.Error("a handler has not heard Closed")
		}
	}
}
