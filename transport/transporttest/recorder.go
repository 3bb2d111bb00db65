package transporttest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
)

// Patience is how long tests wait for something that must happen.
const Patience = 20 * time.Second

// Recorder is a transport.Handler that checks the rules of the interface as it
// is called: who may call what when, and that messages made by a Sender arrive
// whole and in order.
type Recorder struct {
	Simple
	// OnMessage and OnEnd, if not nil, are called after the checks.
	OnMessage func(h *wire.Header, payload []byte)
	OnEnd     func()
	// OnResumed, if not nil, is called by Resumed and tells whether to go on.
	OnResumed func() bool

	busy     atomic.Bool // inside Begin, Message or End
	inBatch  bool        // between Begin and End
	inBatchN int         // messages since Begin
	ended    atomic.Bool

	writable chan struct{}
	closed   chan struct{}
	resumed  chan struct{}
	progress chan struct{} // has a token after something arrived

	mu       sync.Mutex
	errs     []error
	messages uint64 // whole messages so far
	bytes    uint64
	cause    error
	acked    uint64
}

// NewRecorder returns a Recorder whose findings fail t when the test ends.
func NewRecorder(t testing.TB) *Recorder {
	r := &Recorder{
		writable: make(chan struct{}, 1024),
		closed:   make(chan struct{}),
		resumed:  make(chan struct{}, 1024),
		progress: make(chan struct{}, 1),
	}
	t.Cleanup(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for i, err := range r.errs {
			if i == 5 {
				t.Errorf("and %d more", len(r.errs)-i)
				break
			}
			t.Error(err)
		}
	})
	return r
}

func (r *Recorder) complain(format string, args ...any) {
	r.mu.Lock()
	r.errs = append(r.errs, fmt.Errorf(format, args...))
	r.mu.Unlock()
}

func (r *Recorder) enter(what string) {
	if !r.busy.CompareAndSwap(false, true) {
		r.complain("%s: called while another callback runs", what)
	}
	if r.ended.Load() {
		r.complain("%s: called after Closed", what)
	}
}

// Begin implements transport.Handler.
func (r *Recorder) Begin() {
	r.enter("Begin")
	if r.inBatch {
		r.complain("Begin: called twice")
	}
	r.inBatch, r.inBatchN = true, 0
	r.busy.Store(false)
}

// Message implements transport.Handler.
func (r *Recorder) Message(h *wire.Header, payload []byte, owned *buf.Buf) {
	r.enter("Message")
	if !r.inBatch {
		r.complain("Message: called outside Begin and End")
	}
	r.inBatchN++
	if owned != nil && (len(owned.B) != len(payload) || len(payload) > 0 && &owned.B[0] != &payload[0]) {
		r.complain("Message: the payload is not the buffer that comes with it")
	}
	r.mu.Lock()
	want := r.messages
	r.messages++
	r.bytes += uint64(wire.HeaderSize + len(payload))
	r.mu.Unlock()
	if h.Sequence != want || int(h.Length) != len(payload) || !Filled(payload, h.Sequence) {
		r.complain("Message: number %d with %d of %d bytes is wrong, expected number %d",
			h.Sequence, len(payload), h.Length, want)
	}
	if r.OnMessage != nil {
		r.OnMessage(h, payload)
	}
	if owned != nil {
		owned.Release()
	}
	r.busy.Store(false)
}

// End implements transport.Handler.
func (r *Recorder) End() {
	r.enter("End")
	if !r.inBatch || r.inBatchN == 0 {
		r.complain("End: without Begin or without a Message")
	}
	r.inBatch = false
	if r.OnEnd != nil {
		r.OnEnd()
	}
	select {
	case r.progress <- struct{}{}:
	default:
	}
	r.busy.Store(false)
}

// Resumed implements transport.Handler.
func (r *Recorder) Resumed() bool {
	r.enter("Resumed")
	if r.inBatch {
		r.complain("Resumed: called between Begin and End")
	}
	read := r.OnResumed == nil || r.OnResumed()
	r.resumed <- struct{}{}
	r.busy.Store(false)
	return read
}

// Writable implements transport.Handler.
func (r *Recorder) Writable() {
	if r.ended.Load() {
		r.complain("Writable: called after Closed")
	}
	select {
	case r.writable <- struct{}{}:
	default:
		r.complain("Writable: called too often")
	}
}

// Closed implements transport.Handler.
func (r *Recorder) Closed(cause error, acked uint64) {
	r.enter("Closed")
	if r.inBatch {
		r.complain("Closed: called before End")
	}
	if r.ended.Swap(true) {
		return // enter has complained already
	}
	if cause == nil {
		r.complain("Closed: without a cause")
	}
	r.mu.Lock()
	r.cause, r.acked = cause, acked
	r.mu.Unlock()
	r.busy.Store(false)
	close(r.closed)
}

// Received returns how many messages and bytes, headers included, have arrived.
func (r *Recorder) Received() (messages, bytes uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.messages, r.bytes
}

// WaitMessages waits until n messages have arrived.
func (r *Recorder) WaitMessages(t testing.TB, n uint64) {
	t.Helper()
	timeout := time.NewTimer(Patience)
	defer timeout.Stop()
	for {
		if got, _ := r.Received(); got >= n {
			return
		}
		select {
		case <-r.progress:
		case <-timeout.C:
			got, _ := r.Received()
			t.Fatalf("%d of %d messages arrived in time", got, n)
		}
	}
}

// WaitWritable waits for one call of Writable.
func (r *Recorder) WaitWritable(t testing.TB) {
	t.Helper()
	wait(t, r.writable, "Writable")
}

// MoreWritable tells whether there were calls of Writable nobody waited for.
func (r *Recorder) MoreWritable() bool { return len(r.writable) > 0 }

// WaitClosed waits for Closed and returns what came with it.
func (r *Recorder) WaitClosed(t testing.TB) (acked uint64, cause error) {
	t.Helper()
	wait(t, r.closed, "Closed")
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.acked, r.cause
}

// IsClosed tells whether Closed has been called.
func (r *Recorder) IsClosed() bool { return r.ended.Load() }

func wait(t testing.TB, c <-chan struct{}, what string) {
	t.Helper()
	timeout := time.NewTimer(Patience)
	defer timeout.Stop()
	select {
	case <-c:
	case <-timeout.C:
		t.Fatalf("no %s in time", what)
	}
}
