//go:build !live

package memnet

import (
	"errors"
	"io"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rds-go/rds/internal/gnetloop"
	"github.com/rds-go/rds/internal/streamtest"
	"github.com/rds-go/rds/transport"
)

func TestContract(t *testing.T) {
	streamtest.Contract(t, true, synctest.Test, func(t *testing.T, o streamtest.Options) *streamtest.Pair {
		r := newRig(t, Options{}, gnetloop.Options{EventLoops: o.EventLoops, ReadBuffer: o.ReadBuffer, SendBuffer: o.SendBuffer, DrainTimeout: o.DrainTimeout})
		p, c := r.fresh()
		return &streamtest.Pair{
			Stream: c, Peer: p, Settle: synctest.Wait,
			Start:  func(h *streamtest.Recorder) error { return c.Start(h) },
			Counts: func() (full, writables uint64) { s := r.stack.Stats(); return s.Full, s.Writables },
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
			if cause := <-h.Ended; early && !errors.Is(cause, syscall.ECONNRESET) {
				t.Errorf("Closed(%v)", cause)
			}
		})
	}
}

// A paused connection is not read, its end is not noticed, and draining does not time out.
func TestPause(t *testing.T) {
	bubble(t, Options{}, gnetloop.Options{DrainTimeout: time.Second}, func(t *testing.T, r *rig) {
		p, c := r.fresh()
		h := streamtest.NewRecorder(t)
		paused := false
		h.OnWake = func() error {
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
		got(t, h, nil)
		if len(h.Ended) != 0 {
			t.Fatal("a paused connection has ended")
		}
		c.Wake()
		if cause := <-h.Ended; cause != io.EOF {
			t.Errorf("Closed(%v)", cause)
		}
		got(t, h, []byte("later"))
	})
}
