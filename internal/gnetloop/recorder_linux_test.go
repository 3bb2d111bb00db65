package gnetloop

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// recorder is a Handler that keeps the stream, logs the calls and complains
// about what the contract forbids. The functions, when set, decide.
type recorder struct {
	t       testing.TB
	onFeed  func(b []byte) error
	onSpace func() ([]byte, int)
	onWake  func() error

	inside  atomic.Bool   // a method of the event loop runs
	ended   atomic.Bool   // Closed was called
	failed  bool          // Feed or Wake returned an error: only Flush follows
	flushed bool          // nothing has come since the last Flush
	place   []byte        // what Space returned, until Filled
	news    chan struct{} // something was logged; cap 1

	writable chan struct{}
	closed   chan error

	mu     sync.Mutex
	stream []byte   // guarded by mu
	calls  []string // guarded by mu
}

func newRecorder(t testing.TB) *recorder {
	return &recorder{
		t: t, flushed: true, news: make(chan struct{}, 1),
		writable: make(chan struct{}, 1), closed: make(chan error, 1),
	}
}

// enter opens a method of the event loop; what it returns closes it.
func (r *recorder) enter(call string) func() {
	if r.inside.Swap(true) {
		r.t.Errorf("%s while the event loop is in another call", call)
	}
	if r.ended.Load() {
		r.t.Errorf("%s after Closed", call)
	}
	if r.failed && call != "Flush" {
		r.t.Errorf("%s after an error", call)
	}
	if r.place != nil && call != "Filled" {
		r.t.Errorf("%s between Space and Filled", call)
	}
	r.flushed = call == "Flush"
	return func() { r.inside.Store(false) }
}

func (r *recorder) log(b []byte, format string, args ...any) {
	r.mu.Lock()
	r.stream = append(r.stream, b...)
	r.calls = append(r.calls, fmt.Sprintf(format, args...))
	r.mu.Unlock()
	select {
	case r.news <- struct{}{}:
	default:
	}
}

func (r *recorder) Feed(b []byte) (err error) {
	defer r.enter("Feed")()
	if len(b) == 0 {
		r.t.Error("Feed of nothing")
	}
	if r.onFeed != nil {
		err = r.onFeed(b)
	}
	r.failed = err != nil
	r.log(b, "Feed %d", len(b))
	return err
}

func (r *recorder) Space() ([]byte, int) {
	defer r.enter("Space")()
	if r.onSpace == nil {
		return nil, 0
	}
	dst, beyond := r.onSpace()
	r.place = dst
	return dst, beyond
}

func (r *recorder) Filled(n int) {
	defer r.enter("Filled")()
	if r.place == nil || n < 0 || n > len(r.place) {
		r.t.Errorf("Filled(%d) of %d", n, len(r.place))
	}
	place := r.place
	r.place = nil
	r.log(place[:n], "Filled %d", n)
}

func (r *recorder) Wake() (err error) {
	defer r.enter("Wake")()
	if r.onWake != nil {
		err = r.onWake()
	}
	r.failed = err != nil
	r.log(nil, "Wake")
	return err
}

func (r *recorder) Flush() {
	defer r.enter("Flush")()
	r.log(nil, "Flush")
}

func (r *recorder) Writable() {
	if r.ended.Load() {
		r.t.Error("Writable after Closed")
	}
	select {
	case r.writable <- struct{}{}:
	default:
		r.t.Error("Writable twice for one Writev")
	}
}

func (r *recorder) Closed(cause error) {
	if r.ended.Swap(true) {
		r.t.Error("Closed twice")
	}
	if r.inside.Load() || r.place != nil || !r.flushed {
		r.t.Error("Closed in the middle of a burst")
	}
	r.closed <- cause
}

// wait returns when the condition holds of the stream and the calls.
func (r *recorder) wait(t testing.TB, what string, ok func(stream []byte, calls []string) bool) {
	t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		r.mu.Lock()
		done := ok(r.stream, r.calls)
		r.mu.Unlock()
		if done {
			return
		}
		select {
		case <-r.news:
		case <-timeout.C:
			t.Fatalf("not in time: %s, after %q", what, r.logged())
		}
	}
}

// waitStream waits for all of want and fails on anything else.
func (r *recorder) waitStream(t testing.TB, want []byte) {
	t.Helper()
	r.wait(t, "the stream", func(s []byte, _ []string) bool { return len(s) >= len(want) })
	r.mu.Lock()
	defer r.mu.Unlock()
	if !bytes.Equal(r.stream, want) {
		t.Errorf("%d bytes arrived, expected %d, and not the same", len(r.stream), len(want))
	}
}

// waitCall waits until a call was logged n times.
func (r *recorder) waitCall(t testing.TB, call string, n int) {
	t.Helper()
	r.wait(t, call, func(_ []byte, calls []string) bool { return count(calls, call) >= n })
}

func (r *recorder) logged() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.calls...)
}

func count(calls []string, call string) (n int) {
	for _, c := range calls {
		if c == call {
			n++
		}
	}
	return n
}
