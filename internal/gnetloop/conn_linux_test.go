//go:build live

package gnetloop

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/streamtest"
	"github.com/rds-go/rds/transport"
)

// What connections of every network show is shown of the host's, too.
func TestContract(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, f func(t *testing.T)) {
		t.Parallel()
		f(t)
	}
	streamtest.Contract(t, false, run, func(t *testing.T, o streamtest.Options) *streamtest.Pair {
		e := newEngine(t, Options{EventLoops: o.EventLoops, ReadBuffer: o.ReadBuffer, SendBuffer: o.SendBuffer, DrainTimeout: o.DrainTimeout})
		peer, c := rawPeer(t, e)
		return &streamtest.Pair{
			Stream: c, Peer: peer, Settle: func() { settle(t, peer) },
			Start:  func(h *streamtest.Recorder) error { return c.Start(h) },
			Counts: func() (full, writables uint64) { s := e.Stats(); return s.Full, s.Writables },
		}
	})
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
		{"fail", func(c *Conn) { c.Fail(streamtest.ErrBad) }, streamtest.ErrBad},
		{"abort, fail", func(c *Conn) { c.Close(transport.Abort); c.Fail(streamtest.ErrBad) }, transport.ErrClosed},
		{"drain, fail", func(c *Conn) { c.Close(transport.Drain); c.Fail(streamtest.ErrBad) }, streamtest.ErrBad},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			peer, c, r := startedPeer(t, newEngine(t, Options{}))
			tt.end(c)
			if cause := streamtest.Receive(t, r.Ended); cause != tt.want {
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
		if err := c.Start(streamtest.NewRecorder(t)); !errors.Is(err, transport.ErrClosed) {
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
		r := streamtest.NewRecorder(t)
		start(t, c, r)
		for {
			if _, err := c.Writev([][]byte{make([]byte, 100)}); err != nil {
				break // sooner or later, and no panic
			}
		}
		streamtest.Receive(t, r.Ended)
	}
}

// Acked counts what the peer's TCP has, whether or not anybody read it.
func TestAckedIsTheKernels(t *testing.T) {
	t.Parallel()
	peer, c, r := startedPeer(t, newEngine(t, Options{}))
	if n, err := c.Writev([][]byte{make([]byte, 3000)}); n != 3000 || err != nil {
		t.Fatalf("Writev: %d, %v", n, err)
	}
	streamtest.Eventually(t, "all is acknowledged", func() bool { return c.Acked() == 3000 })
	_ = peer.SetLinger(0)
	_ = peer.Close()
	streamtest.Receive(t, r.Ended)
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
	r1, r2 := streamtest.NewRecorder(t), streamtest.NewRecorder(t)
	r1.OnFeed = func([]byte) error { return second.Start(r2) }
	start(t, first, r1)
	write(t, peer1, []byte{1})
	write(t, peer2, []byte{2})
	r2.WaitStream(t, []byte{2})
}

// Whatever is called while a connection ends, from however many goroutines,
// finds its own socket or none.
func TestEverythingAtOnce(t *testing.T) {
	t.Parallel()
	e := newEngine(t, Options{})
	for i := range 50 {
		a, b := connect(t, e)
		ra, rb := streamtest.NewRecorder(t), streamtest.NewRecorder(t)
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
	streamtest.Must(t, e.Close())
}

// Engine.Close returns when every handler has heard the end.
func TestEngineCloseEndsConnections(t *testing.T) {
	t.Parallel()
	e := newEngine(t, Options{})
	var rs []*streamtest.Recorder
	for range 10 {
		a, b := connect(t, e)
		r := streamtest.NewRecorder(t)
		start(t, a, r)
		rs = append(rs, r)
		_ = b // is never started
	}
	streamtest.Must(t, errors.Join(e.Close(), e.Close()))
	for _, r := range rs {
		select {
		case cause := <-r.Ended:
			var reset *net.OpError
			if cause != transport.ErrClosed && cause != io.EOF && !errors.Is(cause, unix.ECONNRESET) && !errors.As(cause, &reset) {
				t.Errorf("Closed(%v)", cause)
			}
		default:
			t.Error("a handler has not heard Closed")
		}
	}
}
