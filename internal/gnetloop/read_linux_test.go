//go:build live

package gnetloop

import (
	"errors"
	"io"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/streamtest"
	"github.com/rds-go/rds/transport"
)

// readBuffer is the least that Options allow: what lies beyond it is there
// for a direct read.
const readBuffer = 4 << 10

// A place is filled in as many parts as the stream comes in; each Space is
// answered, by 0 when there is nothing.
func TestPlaceIsFilledInParts(t *testing.T) {
	t.Parallel()
	peer, c := rawPeer(t, newEngine(t, Options{ReadBuffer: readBuffer}))
	r := streamtest.NewRecorder(t)
	// The handler as one with a lock would be: the same place for what is
	// missing, whether it comes by Feed or by Filled.
	place, have := make([]byte, 50000), 0
	r.OnFeed = func(b []byte) error { have += copy(place[have:], b); return nil }
	r.OnSpace = func() ([]byte, int) {
		if have == len(place) {
			return nil, 0
		}
		return place[have:], 0
	}
	filled := &countFilled{Recorder: r, have: &have}
	streamtest.Must(t, c.Start(filled))
	b := streamtest.Pattern(len(place))
	for i := 0; i < len(b); {
		n := min(1+i/2, len(b)-i)
		write(t, peer, b[i:i+n])
		i += n
		r.Wait(t, "the part", func(s []byte, _ []string) bool { return len(s) == i })
	}
	r.WaitStream(t, b)
	if n := streamtest.Count(r.Logged(), "Filled 0"); n == 0 {
		t.Error("no Space came to nothing")
	}
	c.Close(transport.Abort)
	streamtest.Receive(t, r.Ended)
	if string(place) != string(b) {
		t.Error("the place holds something else")
	}
}

// countFilled keeps have up to date for the handler above.
type countFilled struct {
	*streamtest.Recorder
	have *int
}

func (f *countFilled) Filled(n int) {
	*f.have += n
	f.Recorder.Filled(n)
}

// The end of a stream that has a place still waiting is an end like any other.
func TestEndInsidePlace(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		linger int
		want   error
	}{{"end", -1, io.EOF}, {"reset", 0, unix.ECONNRESET}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			peer, c := rawPeer(t, newEngine(t, Options{}))
			r := streamtest.NewRecorder(t)
			r.OnSpace = func() ([]byte, int) { return make([]byte, 100), 10 }
			start(t, c, r)
			write(t, peer, []byte{1})
			r.WaitCall(t, "Filled 0", 1)
			_ = peer.SetLinger(tt.linger)
			_ = peer.Close()
			if cause := streamtest.Receive(t, r.Ended); !errors.Is(cause, tt.want) {
				t.Errorf("Closed(%v)", cause)
			}
		})
	}
}

// A handler that lends no memory must not keep the event loop in a circle.
func TestEmptyPlace(t *testing.T) {
	t.Parallel()
	peer, c := rawPeer(t, newEngine(t, Options{}))
	r := streamtest.NewRecorder(t)
	r.OnSpace = func() ([]byte, int) { return []byte{}, 0 }
	start(t, c, r)
	write(t, peer, []byte{1})
	r.WaitCall(t, "Flush", 1)
	write(t, peer, []byte{2})
	r.WaitStream(t, []byte{1, 2})
}
