package streamtest

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Recorder is a Handler that keeps the stream, logs the calls and complains
// about what the contract forbids. The functions, when set, decide.
type Recorder struct {
	t       testing.TB
	OnFeed  func(b []byte) error
	OnSpace func() ([]byte, int)
	OnWake  func() error

	inside  atomic.Bool   // a method of the event loop runs
	ended   atomic.Bool   // Closed was called
	failed  bool          // Feed or Wake returned an error: only Flush follows
	flushed bool          // nothing has come since the last Flush
	place   []byte        // what Space returned, until Filled
	news    chan struct{} // something was Logged; cap 1

	Writables chan struct{}
	Ended     chan error

	mu     sync.Mutex
	stream []byte   // guarded by mu
	calls  []string // guarded by mu
}

func NewRecorder(t testing.TB) *Recorder {
	return &Recorder{
		t: t, flushed: true, news: make(chan struct{}, 1),
		Writables: make(chan struct{}, 1), Ended: make(chan error, 1),
	}
}

// enter opens a method of the event loop; what it returns closes it.
func (r *Recorder) enter(call string) func() {
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

func (r *Recorder) log(b []byte, format string, args ...any) {
	r.mu.Lock()
	r.stream = append(r.stream, b...)
	r.calls = append(r.calls, fmt.Sprintf(format, args...))
	r.mu.Unlock()
	select {
	case r.news <- struct{}{}:
	default:
	}
}

func (r *Recorder) Feed(b []byte) (err error) {
	defer r.enter("Feed")()
	if len(b) == 0 {
		r.t.Error("Feed of nothing")
	}
	if r.OnFeed != nil {
		err = r.OnFeed(b)
	}
	r.failed = err != nil
	r.log(b, "Feed %d", len(b))
	return err
}

func (r *Recorder) Space() ([]byte, int) {
	defer r.enter("Space")()
	if r.OnSpace == nil {
		return nil, 0
	}
	dst, beyond := r.OnSpace()
	r.place = dst
	return dst, beyond
}

func (r *Recorder) Filled(n int) {
	defer r.enter("Filled")()
	if r.place == nil || n < 0 || n > len(r.place) {
		r.t.Errorf("Filled(%d) of %d", n, len(r.place))
	}
	place := r.place
	r.place = nil
	r.log(place[:n], "Filled %d", n)
}

func (r *Recorder) Wake() (err error) {
	defer r.enter("Wake")()
	if r.OnWake != nil {
		err = r.OnWake()
	}
	r.failed = err != nil
	r.log(nil, "Wake")
	return err
}

func (r *Recorder) Flush() {
	defer r.enter("Flush")()
	r.log(nil, "Flush")
}

func (r *Recorder) Writable() {
	if r.ended.Load() {
		r.t.Error("Writable after Closed")
	}
	select {
	case r.Writables <- struct{}{}:
	default:
		r.t.Error("Writable twice for one Writev")
	}
}

func (r *Recorder) Closed(cause error) {
	if r.ended.Swap(true) {
		r.t.Error("Closed twice")
	}
	if r.inside.Load() || r.place != nil || !r.flushed {
		r.t.Error("Closed in the middle of a burst")
	}
	r.Ended <- cause
}

// Wait returns when the condition holds of the stream and the calls.
func (r *Recorder) Wait(t testing.TB, what string, ok func(stream []byte, calls []string) bool) {
	t.Helper()
	timeout := time.NewTimer(Patience)
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
			t.Fatalf("not in time: %s, after %q", what, r.Logged())
		}
	}
}

// WaitStream waits for all of want and fails on anything else.
func (r *Recorder) WaitStream(t testing.TB, want []byte) {
	t.Helper()
	r.Wait(t, "the stream", func(s []byte, _ []string) bool { return len(s) >= len(want) })
	r.mu.Lock()
	defer r.mu.Unlock()
	if !bytes.Equal(r.stream, want) {
		t.Errorf("%d bytes arrived, expected %d, and not the same", len(r.stream), len(want))
	}
}

// WaitCall waits until a call was Logged n times.
func (r *Recorder) WaitCall(t testing.TB, call string, n int) {
	t.Helper()
	r.Wait(t, call, func(_ []byte, calls []string) bool { return Count(calls, call) >= n })
}

func (r *Recorder) Logged() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.calls...)
}

func Count(calls []string, call string) (n int) {
	for _, c := range calls {
		if c == call {
			n++
		}
	}
	return n
}
