//go:build live

package gnetloop

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/rds-go/rds/internal/streamtest"
)

// sink takes a stream of records of one size, all but their first bytes
// straight to one place.
type sink struct {
	size, head int // bytes of a record; of them before the place
	at         int // in the record at hand
	place      []byte
	got        atomic.Int64
	want       atomic.Int64
	reached    chan struct{}
	room       chan struct{}
	woken      chan struct{}
}

func newSink(size int) *sink {
	return &sink{
		size: size, head: 20, place: make([]byte, size),
		reached: make(chan struct{}, 1), room: make(chan struct{}, 1), woken: make(chan struct{}, 1),
	}
}

func (s *sink) add(n int) {
	s.at = (s.at + n) % s.size
	s.got.Add(int64(n))
}
func (s *sink) Feed(b []byte) error { s.add(len(b)); return nil }
func (s *sink) Space() ([]byte, int) {
	if s.at < s.head {
		return nil, 0
	}
	return s.place[s.at:], s.head
}
func (s *sink) Filled(n int) { s.add(n) }
func (s *sink) Flush() {
	if s.got.Load() == s.want.Load() {
		select {
		case s.reached <- struct{}{}:
		default:
		}
	}
}
func (s *sink) Wake() error  { s.woken <- struct{}{}; return nil }
func (s *sink) Writable()    { s.room <- struct{}{} }
func (s *sink) Closed(error) {}

// send writes b whole, and waits until it has come.
func send(t testing.TB, from *Conn, here, there *sink, b []byte, scrap [][]byte) {
	there.want.Add(int64(len(b)))
	for len(b) > 0 {
		scrap[0] = b
		n, err := from.Writev(scrap)
		streamtest.Must(t, err)
		if b = b[n:]; len(b) > 0 {
			<-here.room
		}
	}
	<-there.reached
}

// Nothing is allocated for what is written, fed, or read to its place.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	for _, size := range []int{64, 1 << 20} {
		a, b := connect(t, newEngine(t, Options{EventLoops: 1}))
		here, there := newSink(size), newSink(size)
		streamtest.Must(t, errors.Join(a.Start(here), b.Start(there)))
		msg, scrap := make([]byte, size), make([][]byte, 1)
		for range 8 {
			send(t, a, here, there, msg, scrap)
		}
		if n := testing.AllocsPerRun(20, func() { send(t, a, here, there, msg, scrap) }); n > 0.5 {
			t.Errorf("%d bytes: %v allocations", size, n)
		}
	}
}

func TestWakeAllocatesNothing(t *testing.T) {
	a, _ := connect(t, newEngine(t, Options{EventLoops: 1}))
	s := newSink(64)
	streamtest.Must(t, a.Start(s))
	a.Wake()
	streamtest.Receive(t, s.woken)
	if n := testing.AllocsPerRun(100, func() { a.Wake(); <-s.woken }); n > 0.5 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkDirect(b *testing.B) {
	for _, bb := range []struct {
		name string
		size int
	}{{"8KiB", 8 << 10}, {"1MiB", 1 << 20}} {
		b.Run(bb.name, func(b *testing.B) {
			from, to := connect(b, newEngine(b, Options{}))
			here, there := newSink(bb.size), newSink(bb.size)
			streamtest.Must(b, errors.Join(from.Start(here), to.Start(there)))
			msg, scrap := make([]byte, bb.size), make([][]byte, 1)
			b.SetBytes(int64(bb.size))
			b.ReportAllocs()
			for b.Loop() {
				send(b, from, here, there, msg, scrap)
			}
		})
	}
}

func BenchmarkWake(b *testing.B) {
	c, _ := connect(b, newEngine(b, Options{}))
	s := newSink(64)
	streamtest.Must(b, c.Start(s))
	b.ReportAllocs()
	for b.Loop() {
		c.Wake()
		<-s.woken
	}
}
