package tcp

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/transporttest"
)

// sink counts what it takes and says when there is room to write and when a
// number of messages is there.
type sink struct {
	room    chan struct{}
	n, want atomic.Uint64
	reached chan struct{}
}

func newSink() *sink {
	s := &sink{room: make(chan struct{}, 1), reached: make(chan struct{}, 1)}
	s.want.Store(math.MaxUint64)
	return s
}

func (s *sink) Begin() {}
func (s *sink) Message(_ *wire.Header, _ []byte, owned *buf.Buf) {
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
func (s *sink) End()                 {}
func (s *sink) Writable()            { s.room <- struct{}{} }
func (s *sink) Closed(error, uint64) {}

// pump writes messages of one size from one link to another.
type pump struct {
	from         transport.Link
	here, there  *sink
	msgs, scrap  [][]byte
	perRun, sent uint64
}

func newPump(t testing.TB, size, batch int) *pump {
	e := newEnv(t, Options{}, Options{})
	a, b := e.Dial(t, e.Accepted(t))
	p := &pump{from: a, here: newSink(), there: newSink(), perRun: uint64(batch)}
	if err := errors.Join(a.Start(p.here), b.Start(p.there)); err != nil {
		t.Fatal(err)
	}
	s := transporttest.Sender{}
	for range batch {
		m := s.Next(size)
		if size < 4096 { // as the stack does: small payloads lie behind their headers
			m = [][]byte{append(m[0], m[1]...)}
		}
		p.msgs = append(p.msgs, m...)
	}
	p.scrap = make([][]byte, len(p.msgs))
	return p
}

func (p *pump) write(t testing.TB) {
	copy(p.scrap, p.msgs)
	p.sent += p.perRun
	for bufs := p.scrap; ; {
		n, err := p.from.Writev(bufs)
		if err != nil {
			t.Fatal(err)
		}
		if bufs = transporttest.Skip(bufs, n); bufs == nil {
			return
		}
		<-p.here.room
	}
}

// settle waits until all has arrived.
func (p *pump) settle() {
	p.there.want.Store(p.sent)
	for p.there.n.Load() < p.sent {
		<-p.there.reached
	}
	p.there.want.Store(math.MaxUint64)
}

func BenchmarkThroughput(b *testing.B) {
	for _, bb := range []struct{ size, batch int }{{64, 1000}, {1 << 10, 256}, {8 << 10, 64}, {64 << 10, 8}, {1 << 20, 1}} {
		b.Run(fmt.Sprintf("%dx%d", bb.size, bb.batch), func(b *testing.B) {
			p := newPump(b, bb.size, bb.batch)
			b.SetBytes(int64(bb.size * bb.batch))
			b.ReportAllocs()
			for b.Loop() {
				p.write(b)
			}
			p.settle()
			b.ReportMetric(float64(bb.batch)*float64(b.N)/b.Elapsed().Seconds(), "msg/s")
		})
	}
}

func BenchmarkAcked(b *testing.B) {
	p := newPump(b, 64, 1)
	p.write(b)
	b.ReportAllocs()
	for b.Loop() {
		p.from.Acked()
	}
}

// Neither end allocates for a message, whether it comes in one piece, in a
// staged buffer, or straight to its place.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	for _, size := range []int{64, 5000, 64 << 10, 1 << 20} {
		p := newPump(t, size, 2)
		for range 8 {
			p.write(t)
			p.settle()
		}
		if n := testing.AllocsPerRun(10, func() { p.write(t); p.settle() }); n > 0.5 {
			t.Errorf("%d bytes: %v allocations for 2 messages", size, n)
		}
	}
}
