//go:build live

package gnetloop

import (
	"errors"
	"io"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/transport"
)

// readBuffer is the least that Options allow: what lies beyond it is there
// for a direct read.
const readBuffer = 4 << 10

// What follows the read buffer is read to its place, not a byte more after it
// than was asked for, and the rest is for the next read.
func TestSpaceBounds(t *testing.T) {
	t.Parallel()
	const size = 8000
	for _, tt := range []struct {
		name   string
		beyond int
		rest   int // bytes behind the place
		want   []string
	}{
		{"nothing beyond", 0, 100, []string{"Feed 4096", "Filled 8000", "Flush", "Feed 100", "Flush"}},
		{"a little beyond", 5, 100, []string{"Feed 4096", "Filled 8000", "Feed 5", "Flush", "Feed 95", "Flush"}},
		{"exactly beyond", 100, 100, []string{"Feed 4096", "Filled 8000", "Feed 100", "Flush"}},
		{"more beyond than there is", 101, 100, []string{"Feed 4096", "Filled 8000", "Feed 100", "Flush"}},
		{"the place is all", MaxBeyond, 0, []string{"Feed 4096", "Filled 8000", "Flush"}},
		{"the most", MaxBeyond, MaxBeyond + 1, []string{"Feed 4096", "Filled 8000", "Feed 65536", "Flush", "Feed 1", "Flush"}},
		{"more than the most", 10 * MaxBeyond, MaxBeyond + 1, []string{"Feed 4096", "Filled 8000", "Feed 65536", "Flush", "Feed 1", "Flush"}},
		{"less than none", -1, 10, []string{"Feed 4096", "Filled 8000", "Flush", "Feed 10", "Flush"}},
		{"less than the place", 7, -1000, []string{"Feed 4096", "Filled 7000", "Flush"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			peer, c := rawPeer(t, newEngine(t, Options{ReadBuffer: readBuffer}))
			b := pattern(readBuffer + size + tt.rest)
			write(t, peer, b)
			settle(t, peer)
			r := newRecorder(t)
			place := make([]byte, size)
			r.onSpace = func() ([]byte, int) {
				dst := place
				place = nil
				return dst, tt.beyond
			}
			start(t, c, r)
			r.waitStream(t, b)
			r.waitCall(t, "Flush", count(tt.want, "Flush"))
			if got := r.logged(); !slices.Equal(got, tt.want) {
				t.Errorf("calls %q, expected %q", got, tt.want)
			}
		})
	}
}

// A place is filled in as many parts as the stream comes in; each Space is
// answered, by 0 when there is nothing.
func TestPlaceIsFilledInParts(t *testing.T) {
	t.Parallel()
	peer, c := rawPeer(t, newEngine(t, Options{ReadBuffer: readBuffer}))
	r := newRecorder(t)
	// The handler as one with a lock would be: the same place for what is
	// missing, whether it comes by Feed or by Filled.
	place, have := make([]byte, 50000), 0
	r.onFeed = func(b []byte) error { have += copy(place[have:], b); return nil }
	r.onSpace = func() ([]byte, int) {
		if have == len(place) {
			return nil, 0
		}
		return place[have:], 0
	}
	filled := &countFilled{recorder: r, have: &have}
	must(t, c.Start(filled))
	b := pattern(len(place))
	for i := 0; i < len(b); {
		n := min(1+i/2, len(b)-i)
		write(t, peer, b[i:i+n])
		i += n
		r.wait(t, "the part", func(s []byte, _ []string) bool { return len(s) == i })
	}
	r.waitStream(t, b)
	if n := count(r.logged(), "Filled 0"); n == 0 {
		t.Error("no Space came to nothing")
	}
	c.Close(transport.Abort)
	receive(t, r.closed)
	if string(place) != string(b) {
		t.Error("the place holds something else")
	}
}

// countFilled keeps have up to date for the handler above.
type countFilled struct {
	*recorder
	have *int
}

func (f *countFilled) Filled(n int) {
	*f.have += n
	f.recorder.Filled(n)
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
			r := newRecorder(t)
			r.onSpace = func() ([]byte, int) { return make([]byte, 100), 10 }
			start(t, c, r)
			write(t, peer, []byte{1})
			r.waitCall(t, "Filled 0", 1)
			_ = peer.SetLinger(tt.linger)
			_ = peer.Close()
			if cause := receive(t, r.closed); !errors.Is(cause, tt.want) {
				t.Errorf("Closed(%v)", cause)
			}
		})
	}
}

// A handler that lends no memory must not keep the event loop in a circle.
func TestEmptyPlace(t *testing.T) {
	t.Parallel()
	peer, c := rawPeer(t, newEngine(t, Options{}))
	r := newRecorder(t)
	r.onSpace = func() ([]byte, int) { return []byte{}, 0 }
	start(t, c, r)
	write(t, peer, []byte{1})
	r.waitCall(t, "Flush", 1)
	write(t, peer, []byte{2})
	r.waitStream(t, []byte{1, 2})
}

var errBad = errors.New("bad stream")

// An error of the handler resets the connection, wherever it comes from.
// Nothing but Flush and Closed follows, although there is more to read.
func TestHandlerErrorResets(t *testing.T) {
	t.Parallel()
	b := pattern(3 * readBuffer)
	for _, tt := range []struct {
		name  string
		after int // bytes fed before the one that is bad
		space bool
		want  []string
	}{
		{"at once", 0, false, []string{"Feed 4096", "Flush"}},
		{"later", readBuffer, false, []string{"Feed 4096", "Flush", "Feed 4096", "Flush"}},
		{"beyond a place", readBuffer, true, []string{"Feed 4096", "Filled 10", "Feed 20", "Flush"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			peer, c := rawPeer(t, newEngine(t, Options{ReadBuffer: readBuffer}))
			write(t, peer, b)
			settle(t, peer)
			r := newRecorder(t)
			fed := 0
			r.onFeed = func(b []byte) error {
				if fed += len(b); fed > tt.after {
					return errBad
				}
				return nil
			}
			if tt.space {
				r.onSpace = func() ([]byte, int) { return make([]byte, 10), 20 }
			}
			start(t, c, r)
			if cause := receive(t, r.closed); cause != errBad {
				t.Errorf("Closed(%v)", cause)
			}
			if got := r.logged(); !slices.Equal(got, tt.want) {
				t.Errorf("calls %q, expected %q", got, tt.want)
			}
			if _, err := peer.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
				t.Errorf("the peer read %v, expected a reset", err)
			}
		})
	}
}

// A peer that resets after its data, as a kernel does that is shut down, does
// not take the data back: Linux keeps the receive queue readable.
func TestResetBehindDataLosesNothing(t *testing.T) {
	t.Parallel()
	peer, c := rawPeer(t, newEngine(t, Options{ReadBuffer: readBuffer}))
	b := pattern(5 * readBuffer)
	write(t, peer, b)
	settle(t, peer) // so that the reset overtakes nothing
	_ = peer.SetLinger(0)
	_ = peer.Close()
	r := newRecorder(t)
	start(t, c, r)
	if cause := receive(t, r.closed); !errors.Is(cause, unix.ECONNRESET) {
		t.Errorf("Closed(%v)", cause)
	}
	r.waitStream(t, b)
}
