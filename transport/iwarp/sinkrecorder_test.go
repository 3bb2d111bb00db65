package iwarp

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
)

// sinkRecorder is a Sink that keeps what it is given and checks the order of its
// calls.
type sinkRecorder struct {
	t        testing.TB
	writable chan struct{}
	acked    chan struct{}
	closed   chan struct{}

	mu      sync.Mutex
	place   bool           // guarded by mu: some of it is read straight to a place
	refuse  error          // guarded by mu
	got     []byte         // guarded by mu
	room    [16 << 10]byte // guarded by mu
	dirty   bool           // guarded by mu: there was no Flush since the last byte
	over    bool           // guarded by mu
	err     error          // guarded by mu
	flushed int            // guarded by mu: of got, at the last Flush
	flushes int            // guarded by mu
	news    []string       // guarded by mu
	fed     func([]byte)   // guarded by mu; what else is done with what comes
	burst   func()         // guarded by mu; what else Flush does
}

func newSinkRecorder(t testing.TB) *sinkRecorder {
	return &sinkRecorder{t: t, writable: make(chan struct{}, 64), acked: make(chan struct{}, 1), closed: make(chan struct{})}
}

func (d *sinkRecorder) enter(what string) {
	d.mu.Lock()
	if d.over {
		d.t.Errorf("%s after Closed", what)
	}
}

func (d *sinkRecorder) Feed(b []byte) error {
	d.enter("Feed")
	defer d.mu.Unlock()
	d.got, d.dirty = append(d.got, b...), true
	if d.fed != nil {
		d.fed(b)
	}
	return d.refuse
}

func (d *sinkRecorder) Queue(n uint32) {
	d.enter("Queue")
	d.news = append(d.news, fmt.Sprintf("%d from %d", n, len(d.got)))
	d.mu.Unlock()
}

func (d *sinkRecorder) Home(tag, queue uint32) {
	d.enter("Home")
	d.news = append(d.news, fmt.Sprintf("tag %#x is of %d", tag, queue))
	d.mu.Unlock()
}

func (d *sinkRecorder) State(queue uint32, s QueueState) {
	d.enter("State")
	d.news = append(d.news, fmt.Sprintf("%d is %d", queue, s))
	d.mu.Unlock()
}

func (d *sinkRecorder) Full(tag uint32, full bool) {
	d.enter("Full")
	d.news = append(d.news, fmt.Sprintf("tag %#x is full: %v", tag, full))
	d.mu.Unlock()
}

// heard is what was said beside messages, once.
func (d *sinkRecorder) heard() (news []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	news, d.news = d.news, nil
	return news
}

func (d *sinkRecorder) Space() ([]byte, bool) {
	d.enter("Space")
	defer d.mu.Unlock()
	if !d.place {
		return nil, false
	}
	return d.room[:], true
}

func (d *sinkRecorder) Filled(n int) {
	d.enter("Filled")
	d.got, d.dirty = append(d.got, d.room[:n]...), true
	d.mu.Unlock()
}

func (d *sinkRecorder) Flush() {
	d.enter("Flush")
	d.dirty, d.flushed = false, len(d.got)
	d.flushes++
	burst := d.burst
	d.mu.Unlock()
	if burst != nil {
		burst()
	}
}

func (d *sinkRecorder) Acked() {
	d.enter("Acked")
	d.mu.Unlock()
	select {
	case d.acked <- struct{}{}:
	default:
	}
}

func (d *sinkRecorder) Begun() (uint64, int) { return 0, 0 }

func (d *sinkRecorder) Writable() { d.writable <- struct{}{} }

func (d *sinkRecorder) Closed(err error) {
	d.enter("Closed")
	if d.dirty {
		d.t.Error("Closed without a Flush of what came before")
	}
	d.over, d.err = true, err
	d.mu.Unlock()
	close(d.closed)
}

// taken is what has come.
func (d *sinkRecorder) taken() []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return bytes.Clone(d.got)
}

// ended waits for Closed.
func (d *sinkRecorder) ended() error {
	d.t.Helper()
	wait(d.t, d.closed, "Closed")
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}
