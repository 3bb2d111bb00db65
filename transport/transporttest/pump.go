package transporttest

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
)

// pumpSink counts what it takes and says when there is room to write and when a
// number of messages is there.
type pumpSink struct {
	Simple
	room    chan struct{}
	n, want atomic.Uint64
	reached chan struct{}
}

func newPumpSink() *pumpSink {
	s := &pumpSink{room: make(chan struct{}, 1), reached: make(chan struct{}, 1)}
	s.want.Store(math.MaxUint64)
	return s
}

func (s *pumpSink) Message(_ *wire.Header, _ []byte, owned *buf.Buf) {
	if owned != nil {
		owned.Release()
	}
	if s.n.Add(1) >= s.want.Load() {
		select {
		case s.reached <- struct{}{}:
		default:
		}
	}
}

func (s *pumpSink) Writable() { s.room <- struct{}{} }

// Pump writes messages of one size from one link to another, for benchmarks.
type Pump struct {
	From         transport.Link
	here, there  *pumpSink
	frames       []transport.Frame
	perRun, sent uint64
}

// NewPump makes a link with batch messages of size bytes to write.
func NewPump(t testing.TB, e Env, size, batch int) *Pump {
	a, b := e.Dial(t, e.Accepted(t))
	p := &Pump{From: a, here: newPumpSink(), there: newPumpSink(), perRun: uint64(batch)}
	if err := errors.Join(a.Start(p.here), b.Start(p.there)); err != nil {
		t.Fatal(err)
	}
	s := Sender{}
	log := make([]byte, 0, batch*(wire.HeaderSize+4096))
	for range batch {
		f := s.Next(size)
		if size < 4096 { // small payloads lie behind their headers, as in the stack
			at := len(log)
			log = append(append(log, f.Head...), f.Body...)
			f.Head, f.Body = log[at:], nil
		}
		p.frames = append(p.frames, f)
	}
	return p
}

// Write writes the batch once.
func (p *Pump) Write(t testing.TB) {
	p.sent += p.perRun
	for frames := p.frames; ; {
		n, err := p.From.Send(frames)
		if err != nil {
			t.Fatal(err)
		}
		if frames = frames[n.Frames:]; len(frames) == 0 {
			return
		}
		<-p.here.room
	}
}

// Settle waits until all has arrived.
func (p *Pump) Settle() {
	p.there.want.Store(p.sent)
	for p.there.n.Load() < p.sent {
		<-p.there.reached
	}
	p.there.want.Store(math.MaxUint64)
}

// Throughput measures batches of several sizes.
func Throughput(b *testing.B, newEnv func(testing.TB) Env) {
	for _, bb := range []struct{ size, batch int }{{64, 1000}, {1 << 10, 256}, {8 << 10, 64}, {64 << 10, 8}, {1 << 20, 1}} {
		b.Run(fmt.Sprintf("%dx%d", bb.size, bb.batch), func(b *testing.B) {
			p := NewPump(b, newEnv(b), bb.size, bb.batch)
			b.SetBytes(int64(bb.size * bb.batch))
			b.ReportAllocs()
			for b.Loop() {
				p.Write(b)
			}
			p.Settle()
			b.ReportMetric(float64(bb.batch)*float64(b.N)/b.Elapsed().Seconds(), "msg/s")
		})
	}
}

// Allocates checks how much both ends together allocate for two messages, whether
// they come in one piece, in a staged buffer, or straight to their place.
func Allocates(t *testing.T, newEnv func(testing.TB) Env, most float64) {
	if lockorder.Recording {
		t.Skip("-tags invariants allocate: run without them")
	}
	for _, size := range []int{64, 5000, 64 << 10, 1 << 20} {
		p := NewPump(t, newEnv(t), size, 2)
		for range 8 {
			p.Write(t)
			p.Settle()
		}
		if n := testing.AllocsPerRun(10, func() { p.Write(t); p.Settle() }); n > most {
			t.Errorf("%d bytes: %v allocations for 2 messages", size, n)
		}
	}
}

// writer writes messages of 64 bytes when there is room, and what could not be written
// when there is again.
type writer struct {
	t testing.TB

	mu   sync.Mutex
	s    Sender            // guarded by mu
	rest []transport.Frame // guarded by mu
}

func (w *writer) write(messages int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range messages {
		w.rest = append(w.rest, w.s.Next(64))
	}
	rest, err := w.s.Try(w.rest)
	if err != nil {
		w.t.Error(err)
	}
	w.rest = append(w.rest[:0], rest...)
}

// echo is a handler that answers every message with one of the same length.
type echo struct {
	Simple
	writer
	n int
}

func (e *echo) Message(_ *wire.Header, _ []byte, owned *buf.Buf) {
	if owned != nil {
		owned.Release()
	}
	e.n++
}
func (e *echo) End()      { e.write(e.n); e.n = 0 }
func (e *echo) Writable() { go e.write(0) }

// asker is a handler that says when an answer is there.
type asker struct {
	Simple
	writer
	answered chan struct{}
}

func (a *asker) Message(*wire.Header, []byte, *buf.Buf) { a.answered <- struct{}{} }
func (a *asker) Writable()                              { go a.write(0) }

// PingPong measures round trips with one message of 64 bytes outstanding, which the
// other end answers from its event loop.
func PingPong(b *testing.B, newEnv func(testing.TB) Env) {
	env := newEnv(b)
	near, far := env.Dial(b, env.Accepted(b))
	a := &asker{writer: writer{s: Sender{Link: near}, t: b}, answered: make(chan struct{}, 1)}
	if err := errors.Join(near.Start(a), far.Start(&echo{writer: writer{s: Sender{Link: far}, t: b}})); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		a.write(1)
		<-a.answered
	}
}
