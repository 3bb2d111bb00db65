//go:build live

package tcp

import (
	"errors"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/gnetloop"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport/transporttest"
)

// friend is the handler of a peer that we are acquainted with.
type friend struct{ *transporttest.Recorder }

func (friend) Acquainted() bool { return true }

// A peer that has connected, or has begun a message, and does not go on loses its link. One
// that has said all it had to say keeps it, and counts as settled; one that we are acquainted
// with keeps it longer, for its process may be stopped.
func TestUnfinishedMessageEndsTheLink(t *testing.T) {
	t.Parallel()
	o := Options{Silence: time.Second}
	var s transporttest.Sender
	whole := func(n int) []byte {
		f := s.Next(n)
		return append(f.Head, f.Body...)
	}
	idle, kept, rec := rawPeer(t, o, nil)
	if _, err := idle.Write(whole(100)); err != nil {
		t.Fatal(err)
	}
	rec.WaitMessages(t, 1)
	if n := kept.t.engine.Stats().HalfOpen; n != 0 {
		t.Errorf("%d links are not settled", n)
	}
	stopped := friend{transporttest.NewRecorder(t)}
	c, _ := rawPeerOf(t, o, stopped)
	if _, err := c.Write(whole(500_000)[:100_000]); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"nothing":             nil,
		"a part of a header":  make([]byte, wire.HeaderSize-1),
		"a part of a message": whole(500_000)[:100_000],
	} {
		c, l, r := rawPeer(t, o, nil)
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
		if n := l.t.engine.Stats().HalfOpen; n != 1 {
			t.Errorf("%s: %d links are not settled", name, n)
		}
		if _, cause := r.WaitClosed(t); !errors.Is(cause, gnetloop.ErrUnfinished) {
			t.Errorf("%s: %v", name, cause)
		}
		if n := l.t.engine.Stats().HalfOpen; n != 0 {
			t.Errorf("%s: %d links are not settled", name, n)
		}
	}
	if stopped.IsClosed() {
		t.Error("the link of a peer that we are acquainted with has ended")
	}
	if rec.IsClosed() {
		t.Error("the link of a peer that has finished its message has ended")
	}
}
