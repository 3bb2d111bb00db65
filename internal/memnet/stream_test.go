//go:build !live

package memnet

import (
	"errors"
	"io"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rds-go/rds/internal/gnetloop"
	"github.com/rds-go/rds/transport"
)

// Drain ends our direction behind what was written and goes on reading.
func TestDrain(t *testing.T) {
	bubble(t, Options{}, gnetloop.Options{}, func(t *testing.T, r *rig) {
		p, c, h := r.peer()
		if n, err := c.Writev([][]byte{{1, 2}, {}, {3}}); n != 3 || err != nil {
			t.Fatalf("Writev: %d, %v", n, err)
		}
		c.Close(transport.Drain)
		c.Close(transport.Drain)
		if _, err := c.Writev([][]byte{{4}}); !errors.Is(err, transport.ErrClosed) {
			t.Errorf("Writev: %v", err)
		}
		if b, err := io.ReadAll(p); err != nil || string(b) != "\x01\x02\x03" {
			t.Errorf("the peer read % x, %v", b, err)
		}
		r.write(p, []byte("rest"))
		_ = p.Close()
		if cause := <-h.closed; cause != io.EOF {
			t.Errorf("Closed(%v)", cause)
		}
		h.got([]byte("rest"))
		if c.Written() != 3 || c.Acked() != 3 {
			t.Errorf("%d of %d acknowledged", c.Acked(), c.Written())
		}
	})
}

func TestDrainTimesOut(t *testing.T) {
	bubble(t, Options{}, gnetloop.Options{DrainTimeout: 7 * time.Second}, func(t *testing.T, r *rig) {
		p, c, h := r.peer()
		begin := time.Now()
		c.Close(transport.Drain)
		if cause := <-h.closed; !errors.Is(cause, transport.ErrDrainTimeout) || time.Since(begin) != 7*time.Second {
			t.Errorf("Closed(%v) after %v", cause, time.Since(begin))
		}
		if _, err := p.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the peer read %v, expected the end of the stream first", err)
		}
	})
}

// Abort resets: what the peer's buffer has already can still be read, as on Linux.
func TestAbort(t *testing.T) {
	bubble(t, Options{}, gnetloop.Options{}, func(t *testing.T, r *rig) {
		p, c, h := r.peer()
		_, _ = c.Writev([][]byte{[]byte("last words")})
		c.Close(transport.Abort)
		if cause := <-h.closed; cause != transport.ErrClosed {
			t.Errorf("Closed(%v)", cause)
		}
		if b, err := io.ReadAll(p); string(b) != "last words" || !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the peer read %q, %v", b, err)
		}
		if _, err := p.Write([]byte{1}); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the peer's write: %v", err)
		}
		if err := c.Start(h); err != transport.ErrClosed || c.MSS() != 0 {
			t.Errorf("after the end: %v, %d", err, c.MSS())
		}
	})
}

// A reset by the peer loses nothing that has arrived, and is told as ECONNRESET.
func TestResetBehindData(t *testing.T) {
	bubble(t, Options{}, gnetloop.Options{ReadBuffer: 4 << 10}, func(t *testing.T, r *rig) {
		p, c := r.fresh()
		b := pattern(20000)
		r.write(p, b)
		_ = p.SetLinger(0)
		_ = p.Close()
		h := newRecorder(t)
		r.start(c, h)
		if cause := <-h.closed; !errors.Is(cause, syscall.ECONNRESET) {
			t.Errorf("Closed(%v)", cause)
		}
		h.got(b)
	})
}

// A write that finds the reset first returns it, and Closed tells it, too.
func TestWriteErrorEndsConnection(t *testing.T) {
	bubble(t, Options{}, gnetloop.Options{}, func(t *testing.T, r *rig) {
		p, c := r.fresh()
		inside, gate := make(chan struct{}), make(chan struct{})
		h := newRecorder(t)
		h.onFeed = func([]byte) error { close(inside); <-gate; return nil }
		r.start(c, h)
		r.write(p, []byte{1})
		<-inside
		_ = p.SetLinger(0)
		_ = p.Close()
		_, err := c.Writev([][]byte{{1}})
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("Writev: %v", err)
		}
		if _, again := c.Writev([][]byte{{1}}); !errors.Is(again, transport.ErrClosed) {
			t.Errorf("next Writev: %v", again)
		}
		close(gate)
		if cause := <-h.closed; cause != err {
			t.Errorf("Closed(%v), expected %v", cause, err)
		}
	})
}

// Bytes for a socket that is closed, or that was closed with bytes unread, reset.
func TestUnreadBytesReset(t *testing.T) {
	for _, early := range []bool{true, false} {
		bubble(t, Options{}, gnetloop.Options{}, func(t *testing.T, r *rig) {
			p, c, h := r.peer()
			if early {
				_, _ = c.Writev([][]byte{{1}})
			}
			_ = p.Close()
			if !early {
				_, _ = c.Writev([][]byte{{1}})
			}
			if cause := <-h.closed; early && !errors.Is(cause, syscall.ECONNRESET) {
				t.Errorf("Closed(%v)", cause)
			}
		})
	}
}

// A Writev that took less than all is followed by one Writable, when there is room.
func TestWritable(t *testing.T) {
	bubble(t, Options{}, gnetloop.Options{SendBuffer: 10000}, func(t *testing.T, r *rig) {
		p, c, h := r.peer()
		b := pattern(1 << 20)
		var got []byte
		for n := 0; n < len(b); {
			k, err := c.Writev([][]byte{b[n:]})
			must(t, err)
			n += k
			synctest.Wait()
			if n < len(b) && len(h.writable) != 0 {
				t.Fatal("Writable of a full socket")
			}
			piece := make([]byte, k)
			if _, err := io.ReadFull(p, piece); err != nil {
				t.Fatal(err)
			}
			got = append(got, piece...)
			if n < len(b) {
				<-h.writable
			}
		}
		if string(got) != string(b) {
			t.Error("the peer read something else")
		}
		if s := r.stack.Stats(); s.Full == 0 || s.Writables != s.Full {
			t.Errorf("%+v", s)
		}
	})
}

// Of more slices than a call may have some are left, and Writable follows at once.
func TestWritevOfTooManySlices(t *testing.T) {
	bubble(t, Options{}, gnetloop.Options{}, func(t *testing.T, r *rig) {
		_, c, h := r.peer()
		bufs := make([][]byte, transport.MaxSlices+1)
		for i := range bufs {
			bufs[i] = []byte{byte(i)}
		}
		if n, err := c.Writev(bufs); n != transport.MaxSlices || err != nil {
			t.Errorf("Writev: %d, %v", n, err)
		}
		<-h.writable
	})
}

// What follows the read buffer is read to its place, and no more after it than was asked for.
func TestSpace(t *testing.T) {
	for _, tt := range []struct {
		beyond, rest int
		want         []string
	}{
		{0, 100, []string{"Feed 4096", "Filled 8000", "Flush", "Feed 100", "Flush"}},
		{5, 100, []string{"Feed 4096", "Filled 8000", "Feed 5", "Flush", "Feed 95", "Flush"}},
		{100, 100, []string{"Feed 4096", "Filled 8000", "Feed 100", "Flush"}},
		{7, -1000, []string{"Feed 4096", "Filled 7000", "Flush"}},
		{gnetloop.MaxBeyond, 0, []string{"Feed 4096", "Filled 8000", "Flush"}},
	} {
		bubble(t, Options{}, gnetloop.Options{ReadBuffer: 4 << 10}, func(t *testing.T, r *rig) {
			p, c := r.fresh()
			b := pattern(4096 + 8000 + tt.rest)
			r.write(p, b)
			h, place := newRecorder(t), make([]byte, 8000)
			h.onSpace = func() ([]byte, int) {
				dst := place
				place = nil
				return dst, tt.beyond
			}
			r.start(c, h)
			h.got(b)
			if got := h.logged(); !slices.Equal(got, tt.want) {
				t.Errorf("calls %q, expected %q", got, tt.want)
			}
		})
	}
}

// An error of the handler resets the connection; only Flush and Closed follow.
func TestHandlerError(t *testing.T) {
	for _, wake := range []bool{false, true} {
		bubble(t, Options{}, gnetloop.Options{ReadBuffer: 4 << 10}, func(t *testing.T, r *rig) {
			p, c := r.fresh()
			h := newRecorder(t)
			h.onFeed = func([]byte) error { return errBad }
			h.onWake = func() error { return errBad }
			want := []string{"Feed 4096", "Flush"}
			r.write(p, pattern(10000))
			if wake {
				c.Wake() // before Start: the handler is woken first
				want = []string{"Wake", "Flush"}
			}
			r.start(c, h)
			if cause := <-h.closed; cause != errBad {
				t.Errorf("Closed(%v)", cause)
			}
			if got := h.logged(); !slices.Equal(got, want) {
				t.Errorf("calls %q, expected %q", got, want)
			}
			if _, err := p.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("the peer read %v", err)
			}
		})
	}
}

// Several calls of Wake before the event loop comes to it make one.
func TestWake(t *testing.T) {
	bubble(t, Options{}, gnetloop.Options{EventLoops: 1}, func(t *testing.T, r *rig) {
		_, c, h := r.peer()
		synctest.Wait()
		gate := make(chan struct{})
		h.onWake = func() error { <-gate; return nil }
		c.Wake()
		synctest.Wait()
		for range 3 {
			c.Wake()
		}
		close(gate)
		if got := h.logged(); !slices.Equal(got, []string{"Wake", "Flush", "Wake", "Flush"}) {
			t.Errorf("calls %q", got)
		}
	})
}

// A paused connection is not read, its end is not noticed, and draining does not time out.
func TestPause(t *testing.T) {
	bubble(t, Options{}, gnetloop.Options{DrainTimeout: time.Second}, func(t *testing.T, r *rig) {
		p, c := r.fresh()
		h := newRecorder(t)
		paused := false
		h.onWake = func() error {
			if paused = !paused; paused {
				c.Pause()
			} else {
				c.Resume()
			}
			return nil
		}
		c.Wake()
		r.start(c, h)
		synctest.Wait()
		r.write(p, []byte("later"))
		_ = p.CloseWrite()
		c.Close(transport.Drain)
		<-time.After(time.Minute)
		h.got(nil)
		if len(h.closed) != 0 {
			t.Fatal("a paused connection has ended")
		}
		c.Wake()
		if cause := <-h.closed; cause != io.EOF {
			t.Errorf("Closed(%v)", cause)
		}
		h.got([]byte("later"))
	})
}
