package streamtest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/transport"
)

// Patience is how long a test waits for what must come.
const Patience = 20 * time.Second

// ErrBad is an error of a handler.
var ErrBad = errors.New("bad stream")

const readBuffer = 4 << 10 // the least that a stack may have

// Options are those of gnetloop that the contract sets.
type Options struct {
	EventLoops, ReadBuffer, SendBuffer int
	DrainTimeout                       time.Duration
}

// Stream is gnetloop.Stream without what names a type of that package.
type Stream interface {
	Writev(bufs [][]byte) (int, error)
	Written() uint64
	Acked() uint64
	Wake()
	Close(mode transport.CloseMode)
	MSS() int
}

// Pair is a connection that a stack has accepted and nobody has started, and its other end.
type Pair struct {
	Stream
	Peer interface {
		net.Conn
		SetLinger(sec int) error
	}
	Start  func(*Recorder) error           // starts the connection
	Settle func()                          // waits until the connection's socket has all that Peer has written
	Counts func() (full, writables uint64) // counters of the stack
}

// start starts the connection with a handler.
func (p *Pair) start(t testing.TB, r *Recorder) *Recorder {
	t.Helper()
	Must(t, p.Start(r))
	return r
}

// write has the peer write.
func (p *Pair) write(t testing.TB, b []byte) {
	t.Helper()
	_, err := p.Peer.Write(b)
	Must(t, err)
}

// reset has the peer reset the connection.
func (p *Pair) reset() {
	_ = p.Peer.SetLinger(0)
	_ = p.Peer.Close()
}

// Contract runs the tests of the contract, each by run, which may do it in a bubble. Then time is
// virtual, and what takes no time is over at once.
func Contract(t *testing.T, virtual bool, run func(t *testing.T, f func(t *testing.T)), pair func(t *testing.T, o Options) *Pair) {
	for _, c := range []struct {
		name string
		o    Options
		test func(t *testing.T, p *Pair, virtual bool)
	}{
		{"Drain", Options{}, drain},
		{"drain times out", Options{DrainTimeout: drainTimeout}, drainTimesOut},
		{"Abort", Options{}, abort},
		{"reset behind data", Options{ReadBuffer: readBuffer}, resetBehindData},
		{"write error", Options{}, writeError},
		{"Writable", Options{SendBuffer: 10_000}, writable},
		{"too many slices", Options{}, tooManySlices},
		{"Wake", Options{EventLoops: 1}, wake},
		{"Wake before Start", Options{}, wakeBeforeStart},
		{"error of Wake", Options{}, wakeFails},
	} {
		t.Run(c.name, func(t *testing.T) {
			run(t, func(t *testing.T) { c.test(t, pair(t, c.o), virtual) })
		})
	}
	onReadBuffer := func(name string, test func(t *testing.T, p *Pair)) {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T) { test(t, pair(t, Options{ReadBuffer: readBuffer})) })
		})
	}
	for _, c := range spaces {
		onReadBuffer("Space, "+c.name, c.test)
	}
	for _, c := range handlerErrors {
		onReadBuffer("error, "+c.name, c.test)
	}
}

// Drain ends our direction behind what was written and goes on reading.
func drain(t *testing.T, p *Pair, _ bool) {
	r := p.start(t, NewRecorder(t))
	if n, err := p.Writev([][]byte{{1, 2}, {}, {3}}); n != 3 || err != nil {
		t.Fatalf("Writev: %d, %v", n, err)
	}
	p.Close(transport.Drain)
	p.Close(transport.Drain)
	if _, err := p.Writev([][]byte{{4}}); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("Writev: %v", err)
	}
	if b, err := io.ReadAll(p.Peer); err != nil || string(b) != "\x01\x02\x03" {
		t.Errorf("the peer read % x, %v", b, err)
	}
	b := Pattern(1000)
	p.write(t, b)
	_ = p.Peer.Close()
	if cause := Receive(t, r.Ended); cause != io.EOF {
		t.Errorf("Closed(%v)", cause)
	}
	r.WaitStream(t, b)
	if p.Written() != 3 || p.Acked() != 3 {
		t.Errorf("%d of %d bytes acknowledged", p.Acked(), p.Written())
	}
}

const drainTimeout = 20 * time.Millisecond

func drainTimesOut(t *testing.T, p *Pair, virtual bool) {
	r := p.start(t, NewRecorder(t))
	begin := time.Now()
	p.Close(transport.Drain)
	if cause := Receive(t, r.Ended); !errors.Is(cause, transport.ErrDrainTimeout) {
		t.Errorf("Closed(%v)", cause)
	}
	if d := time.Since(begin); virtual && d != drainTimeout {
		t.Errorf("Closed after %v", d)
	}
	if _, err := p.Peer.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the peer read %v, expected the end of the stream first", err)
	}
}

// Abort resets: what the peer's buffer has already can still be read, as on Linux.
func abort(t *testing.T, p *Pair, _ bool) {
	r := p.start(t, NewRecorder(t))
	words := []byte("last words")
	if n, err := p.Writev([][]byte{words}); n != len(words) || err != nil {
		t.Fatalf("Writev: %d, %v", n, err)
	}
	Eventually(t, "all is acknowledged", func() bool { return p.Acked() == uint64(len(words)) })
	p.Close(transport.Abort)
	if cause := Receive(t, r.Ended); cause != transport.ErrClosed {
		t.Errorf("Closed(%v)", cause)
	}
	if b, err := io.ReadAll(p.Peer); !bytes.Equal(b, words) || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the peer read %q, %v", b, err)
	}
	if _, err := p.Peer.Write([]byte{1}); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		t.Errorf("the peer's write: %v", err)
	}
	if err := p.Start(r); !errors.Is(err, transport.ErrClosed) || p.MSS() != 0 {
		t.Errorf("after the end: %v, segments of %d bytes", err, p.MSS())
	}
}

// A peer that resets after its data, as a kernel does that is shut down, does not take the data
// back: Linux keeps the receive queue readable.
func resetBehindData(t *testing.T, p *Pair, _ bool) {
	b := Pattern(5 * readBuffer)
	p.write(t, b)
	p.Settle() // so that the reset overtakes nothing
	p.reset()
	r := p.start(t, NewRecorder(t))
	if cause := Receive(t, r.Ended); !errors.Is(cause, syscall.ECONNRESET) {
		t.Errorf("Closed(%v)", cause)
	}
	r.WaitStream(t, b)
}

// When the write finds out first, its error is returned and Closed tells it too.
func writeError(t *testing.T, p *Pair, _ bool) {
	// The loop is kept busy in the handler, so that it cannot notice the reset.
	inside, gate := make(chan struct{}), make(chan struct{})
	r := NewRecorder(t)
	r.OnFeed = func([]byte) error { close(inside); <-gate; return nil }
	p.start(t, r)
	p.write(t, []byte{1})
	Receive(t, inside)
	p.reset()
	msg := [][]byte{make([]byte, 100)}
	var err error
	for err == nil {
		_, err = p.Writev(msg)
	}
	if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		t.Errorf("Writev: %v", err)
	}
	if _, again := p.Writev(msg); !errors.Is(again, transport.ErrClosed) {
		t.Errorf("next Writev: %v", again)
	}
	close(gate)
	if cause := Receive(t, r.Ended); cause != err {
		t.Errorf("Closed(%v), expected %v", cause, err)
	}
}

// A Writev that took less than all is followed by one Writable, when there is room, and by no
// other.
func writable(t *testing.T, p *Pair, virtual bool) {
	r := p.start(t, NewRecorder(t))
	b := Pattern(2 << 20)
	got := make([]byte, len(b))
	for n := 0; n < len(b); {
		k, err := p.Writev([][]byte{b[n:]})
		Must(t, err)
		if n == 0 && k == len(b) {
			t.Fatal("the socket takes all")
		}
		if virtual {
			p.Settle()
			if len(r.Writables) != 0 {
				t.Fatal("Writable of a full socket")
			}
		}
		_, err = io.ReadFull(p.Peer, got[n:n+k])
		Must(t, err)
		if n += k; n < len(b) {
			Receive(t, r.Writables)
		}
	}
	if !bytes.Equal(got, b) {
		t.Error("the peer read something else")
	}
	if full, writables := p.Counts(); full == 0 || writables != full {
		t.Errorf("%d times full, %d calls of Writable", full, writables)
	}
}

// Of more slices than one call may carry some are left, and Writable follows.
func tooManySlices(t *testing.T, p *Pair, _ bool) {
	r := p.start(t, NewRecorder(t))
	bufs := make([][]byte, transport.MaxSlices+1)
	for i := range bufs {
		bufs[i] = []byte{byte(i)}
	}
	if n, err := p.Writev(bufs); n != transport.MaxSlices || err != nil {
		t.Errorf("Writev: %d, %v", n, err)
	}
	Receive(t, r.Writables)
}

// Wakes that come while one is due are that one, and a burst ends behind it.
func wake(t *testing.T, p *Pair, _ bool) {
	r := NewRecorder(t)
	inside, gate := make(chan struct{}), make(chan struct{})
	r.OnFeed = func([]byte) error { inside <- struct{}{}; <-gate; return nil }
	p.start(t, r)
	p.write(t, []byte{1})
	Receive(t, inside)
	for range 10 {
		p.Wake() // the event loop is busy
	}
	gate <- struct{}{}
	r.WaitCall(t, "Flush", 2)
	p.Wake()
	r.WaitCall(t, "Flush", 3)
	r.wantCalls(t, "Feed 1", "Flush", "Wake", "Flush", "Wake", "Flush")
}

// What a connection was asked for before it has an event loop is not lost.
func wakeBeforeStart(t *testing.T, p *Pair, _ bool) {
	p.Wake()
	p.Wake()
	r := p.start(t, NewRecorder(t))
	r.WaitCall(t, "Flush", 1)
	r.wantCalls(t, "Wake", "Flush")
}

// An error of Wake is like one of Feed: nothing is fed any more.
func wakeFails(t *testing.T, p *Pair, _ bool) {
	r := NewRecorder(t)
	r.OnWake = func() error { return ErrBad }
	p.write(t, []byte{1})
	p.start(t, r)
	r.WaitCall(t, "Flush", 1)
	p.Wake()
	p.wantBad(t, r, "Feed 1", "Flush", "Wake", "Flush")
}

// space has a place that follows the read buffer.
type space struct {
	name   string
	beyond int
	rest   int // bytes behind the place
	want   []string
}

var spaces = []space{
	{"nothing beyond", 0, 100, []string{"Feed 4096", "Filled 8000", "Flush", "Feed 100", "Flush"}},
	{"a little beyond", 5, 100, []string{"Feed 4096", "Filled 8000", "Feed 5", "Flush", "Feed 95", "Flush"}},
	{"exactly beyond", 100, 100, []string{"Feed 4096", "Filled 8000", "Feed 100", "Flush"}},
	{"more beyond than there is", 101, 100, []string{"Feed 4096", "Filled 8000", "Feed 100", "Flush"}},
	{"the place is all", maxBeyond, 0, []string{"Feed 4096", "Filled 8000", "Flush"}},
	{"the most", maxBeyond, maxBeyond + 1, []string{"Feed 4096", "Filled 8000", "Feed 65536", "Flush", "Feed 1", "Flush"}},
	{"more than the most", 10 * maxBeyond, maxBeyond + 1, []string{"Feed 4096", "Filled 8000", "Feed 65536", "Flush", "Feed 1", "Flush"}},
	{"less than none", -1, 10, []string{"Feed 4096", "Filled 8000", "Flush", "Feed 10", "Flush"}},
	{"less than the place", 7, -1000, []string{"Feed 4096", "Filled 7000", "Flush"}},
}

// maxBeyond is gnetloop.MaxBeyond.
const maxBeyond = 64 << 10

// What follows the read buffer is read to its place, not a byte more after it than was asked
// for, and the rest is for the next read.
func (s space) test(t *testing.T, p *Pair) {
	place := make([]byte, 8000)
	b := Pattern(readBuffer + len(place) + s.rest)
	p.write(t, b)
	p.Settle()
	r := NewRecorder(t)
	r.OnSpace = func() ([]byte, int) {
		dst := place
		place = nil
		return dst, s.beyond
	}
	p.start(t, r)
	r.WaitStream(t, b)
	r.WaitCall(t, "Flush", Count(s.want, "Flush"))
	r.wantCalls(t, s.want...)
}

// handlerError has a handler that returns an error.
type handlerError struct {
	name  string
	after int // bytes fed before the one that is bad
	space bool
	want  []string
}

var handlerErrors = []handlerError{
	{"at once", 0, false, []string{"Feed 4096", "Flush"}},
	{"later", readBuffer, false, []string{"Feed 4096", "Flush", "Feed 4096", "Flush"}},
	{"beyond a place", readBuffer, true, []string{"Feed 4096", "Filled 10", "Feed 20", "Flush"}},
}

// An error of the handler resets the connection, wherever it comes from. Nothing but Flush and
// Closed follows, although there is more to read.
func (e handlerError) test(t *testing.T, p *Pair) {
	p.write(t, Pattern(3*readBuffer))
	p.Settle()
	r := NewRecorder(t)
	fed := 0
	r.OnFeed = func(b []byte) error {
		if fed += len(b); fed > e.after {
			return ErrBad
		}
		return nil
	}
	if e.space {
		r.OnSpace = func() ([]byte, int) { return make([]byte, 10), 20 }
	}
	p.start(t, r)
	p.wantBad(t, r, e.want...)
}

// wantBad expects that the handler's error resets the connection after these calls.
func (p *Pair) wantBad(t *testing.T, r *Recorder, calls ...string) {
	t.Helper()
	if cause := Receive(t, r.Ended); cause != ErrBad {
		t.Errorf("Closed(%v)", cause)
	}
	r.wantCalls(t, calls...)
	if _, err := p.Peer.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the peer read %v, expected a reset", err)
	}
}

// wantCalls checks all calls so far.
func (r *Recorder) wantCalls(t testing.TB, want ...string) {
	t.Helper()
	if got := r.Logged(); !slices.Equal(got, want) {
		t.Errorf("calls %q, expected %q", got, want)
	}
}

// Receive waits for the next of what comes.
func Receive[T any](t testing.TB, c <-chan T) (v T) {
	t.Helper()
	timeout := time.NewTimer(Patience)
	defer timeout.Stop()
	select {
	case v = <-c:
	case <-timeout.C:
		t.Fatal("nothing came in time")
	}
	return v
}

// Eventually waits for what no event announces.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(Patience); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// Must ends a test with an error, unless that is nil.
func Must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// Pattern returns n bytes of which no two pieces look alike.
func Pattern(n int) []byte {
	b := make([]byte, 0, n+8)
	for i := uint32(0); len(b) < n; i++ {
		b = binary.BigEndian.AppendUint32(b, i*2654435761)
	}
	return b[:n]
}
