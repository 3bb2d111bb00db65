//go:build live

package tcp

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/transporttest"
)

// The time for draining does not run while the link is paused, and runs after it.
func TestPausedLinkIsNotCutWhileItDrains(t *testing.T) {
	t.Parallel()
	const limit = 100 * time.Millisecond
	for _, ends := range []bool{true, false} {
		e := newEnv(t, Options{}, Options{DrainTimeout: limit})
		a, b := e.Dial(t, e.Accepted(t))
		recA, recB := transporttest.NewRecorder(t), transporttest.NewRecorder(t)
		pauses := func(l transport.Link) func(*wire.Header, []byte) {
			return func(h *wire.Header, _ []byte) {
				if h.Sequence == 0 {
					l.Pause()
				}
			}
		}
		recA.OnMessage, recB.OnMessage = pauses(a), pauses(b)
		if err := errors.Join(a.Start(recA), b.Start(recB)); err != nil {
			t.Fatal(err)
		}
		s := &transporttest.Sender{Link: a, Rec: recA}
		s.Send(t, 10)
		recB.WaitMessages(t, 1)
		if !ends { // it does not notice b's end, and so does not answer it
			(&transporttest.Sender{Link: b, Rec: recB}).Send(t, 10)
			recA.WaitMessages(t, 1)
		}
		s.Send(t, 20, 30)
		b.Close(transport.Drain)
		<-time.After(5 * limit)
		if recB.IsClosed() {
			t.Fatal("a paused link was cut")
		}
		want := transport.ErrDrainTimeout
		if ends {
			a.Close(transport.Drain)
			want = io.EOF
		}
		b.Resume()
		if _, cause := recB.WaitClosed(t); !errors.Is(cause, want) {
			t.Errorf("the peer ends: %v; Closed(%v)", ends, cause)
		}
		if n, _ := recB.Received(); n != 3 {
			t.Errorf("%d messages were delivered", n)
		}
		if err := errors.Join(e.A.Close(), e.B.Close()); err != nil {
			t.Error(err)
		}
	}
}
