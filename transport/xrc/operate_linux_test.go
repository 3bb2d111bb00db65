//go:build !live

package xrc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/transport/transporttest"
)

// operators is a link whose other end has a region.
type operators struct {
	t    testing.TB
	a, b *Transport
	from *link
	to   *link
	ha   *transporttest.Hearer
	hb   *transporttest.Hearer
	mem  []byte
	key  uint32
	s    transporttest.Sender // makes messages
}

// newOperators makes a link. message, if not nil, sees the messages as they come, and
// the region.
func newOperators(t testing.TB, o Options, region int, message func(mem []byte, seq uint64)) *operators {
	t.Helper()
	e := newEnv(t, o, o)
	x := &operators{t: t, a: e.A.(*Transport), b: e.B.(*Transport), ha: transporttest.NewHearer(1 << 16), hb: transporttest.NewHearer(1 << 16), mem: make([]byte, region)}
	x.key = expose(t, x.b, x.mem)
	if message != nil {
		x.hb.OnMessage = func(seq uint64) { message(x.mem, seq) }
	}
	a, b := e.Dial(t, e.Accepted(t))
	x.from, x.to = a.(*link), b.(*link)
	x.s.Link = a
	must(t, errors.Join(a.Start(x.ha), b.Start(x.hb)))
	return x
}

// operate begins operations, waiting for room.
func (x *operators) operate(ops ...*transport.Operation) {
	x.t.Helper()
	x.send(transport.Frame{Ops: ops})
}

// send sends frames, waiting for room.
func (x *operators) send(frames ...transport.Frame) {
	x.t.Helper()
	for {
		var err error
		frames, err = x.s.Try(frames)
		must(x.t, err)
		if len(frames) == 0 {
			return
		}
		<-x.ha.Room
	}
}

// Through the smallest send buffers: a message comes when what its operations write is in
// place, not at all if one is refused, and what follows it comes in any case, also if
// it was written together with the end of the one that is refused. All of it counts as
// acknowledged.
func TestMessagesFollowTheirOperations(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for n, o := range []Options{{}, {Operations: 4, Config: iwarp.Config{SendBuffer: 4 << 10, ReceiveBuffer: 256 << 10}}, {CRC: CRCOn, Config: iwarp.Config{SendBuffer: 4 << 10}}} {
			const rounds = 100
			x := newOperators(t, o, 8*rounds, func(mem []byte, seq uint64) {
				if seq%2 == 0 && binary.BigEndian.Uint64(mem[seq/2*8:]) != seq+1 {
					t.Errorf("message %d before its data", seq)
				}
			})
			r := rand.New(rand.NewPCG(4, uint64(n)))
			var (
				want  []uint64
				ended sync.WaitGroup
			)
			for i := range uint64(rounds) {
				op := func(key uint32, wanted transport.OpStatus) *transport.Operation {
					ended.Add(1)
					return &transport.Operation{
						Kind: transport.OpWrite, Local: [][]byte{binary.BigEndian.AppendUint64(nil, 2*i+1)}, Key: key, Addr: 8 * i,
						Done: func(_ *transport.Operation, s transport.OpStatus) {
							if s != wanted {
								t.Errorf("an operation of message %d ended with %d, not %d", 2*i, s, wanted)
							}
							ended.Done()
						},
					}
				}
				good := func() *transport.Operation { return op(x.key, transport.OpSuccess) }
				bad := func() *transport.Operation { return op(x.key+1, transport.OpRefused) }
				if r.IntN(4) == 0 { // what is wrong with it is no matter of the next message
					x.operate(bad())
				}
				f := x.s.Next(r.IntN([]int{1, 100, 5000, 200_000}[r.IntN(4)]) + 1)
				switch r.IntN(4) {
				case 0:
					f.Ops = []*transport.Operation{good(), bad(), good()}
				case 1:
					f.Ops = []*transport.Operation{bad()}
				default:
					f.Ops = []*transport.Operation{good()}
					want = append(want, 2*i)
				}
				x.send(f, x.s.Next(r.IntN(300)))
				want = append(want, 2*i+1)
			}
			ended.Wait()
			eventually(t, "acknowledgements", func() bool { return x.from.Acked() == x.from.Stats().Written })
			if got := x.hb.Got(); !slices.Equal(got, want) {
				t.Errorf("%d messages came, not the %d that should", len(got), len(want))
			}
		}
	})
}

// finished is how an operation ends, once.
type finished struct {
	status atomic.Int32 // 1 more than the status
	done   chan struct{}
}

func (f *finished) set(t testing.TB) func(*transport.Operation, transport.OpStatus) {
	f.done = make(chan struct{})
	return func(_ *transport.Operation, s transport.OpStatus) {
		if !f.status.CompareAndSwap(0, 1+int32(s)) {
			t.Error("an operation has ended twice")
			return
		}
		close(f.done)
	}
}

// Memory in any number of pieces is written and read as one, also more pieces than a
// request takes, and no registration of them is left.
func TestOperationsOnPieces(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := newOperators(t, Options{}, 1<<20, nil)
		before := x.a.Regions().Stats().Registered
		r := rand.New(rand.NewPCG(5, 0))
		for round := range 60 {
			var local [][]byte
			for range r.IntN(24) {
				p := make([]byte, r.IntN([]int{1, 10, 30_000}[r.IntN(3)])+r.IntN(2))
				for i := range p {
					p[i] = byte(r.Uint32())
				}
				local = append(local, p)
			}
			all := slices.Concat(local...)
			addr := uint64(r.IntN(len(x.mem) - len(all)))
			var back [][]byte
			for _, p := range local {
				back = append(back, make([]byte, len(p)))
			}
			var w, rd finished
			x.operate(&transport.Operation{Kind: transport.OpWrite, Local: local, Key: x.key, Addr: addr, Done: w.set(t)})
			<-w.done
			x.operate(&transport.Operation{Kind: transport.OpRead, Local: back, Key: x.key, Addr: addr, Done: rd.set(t)})
			<-rd.done
			if w.status.Load() != 1 || rd.status.Load() != 1 || !bytes.Equal(slices.Concat(back...), all) {
				t.Fatalf("round %d: %d bytes in %d pieces: %d, %d, or not what was written", round, len(all), len(local), w.status.Load(), rd.status.Load())
			}
		}
		if after := x.a.Regions().Stats().Registered; after.Live != before.Live {
			t.Errorf("%d regions are registered, %d before", after.Live, before.Live)
		}
	})
}

// Operations that no link could do are refused at once, all of them, and nothing is
// left of it; more than the link ever takes, too.
func TestOperateRefusesNonsense(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := newOperators(t, Options{Operations: 4}, 4096, nil)
		before := x.a.Regions().Stats().Registered
		never := func(*transport.Operation, transport.OpStatus) { t.Error("an operation that was not begun has ended") }
		good := transport.Operation{Kind: transport.OpWrite, Local: [][]byte{{1}}, Key: x.key, Done: never}
		word := [][]byte{make([]byte, 8)}
		refused := func(what string, want error, ops ...*transport.Operation) {
			t.Helper()
			f := x.s.Next(10)
			f.Ops = ops
			n, err := x.from.Send([]transport.Frame{f})
			if about := new(transport.FrameError); n != (transport.Taken{}) || !errors.As(err, &about) || !errors.Is(err, want) {
				t.Errorf("%s: %+v, %v", what, n, err)
			}
		}
		for name, bad := range map[string]transport.Operation{
			"misaligned":        {Kind: transport.OpFetchAdd, Local: word, Key: x.key, Addr: 4, Done: never},
			"short word":        {Kind: transport.OpCompareSwap, Local: [][]byte{{1, 2, 3, 4}}, Key: x.key, Done: never},
			"word in parts":     {Kind: transport.OpFetchAdd, Local: [][]byte{make([]byte, 4), make([]byte, 4)}, Key: x.key, Done: never},
			"word of nobody":    {Kind: transport.OpFetchAdd, Key: x.key, Done: never},
			"unknown operation": {Kind: 4, Local: word, Key: x.key, Done: never},
		} {
			refused(name, syscall.EINVAL, &good, &bad)
		}
		refused("too many", errTooMuch, &good, &good, &good, &good, &good)
		if after := x.a.Regions().Stats().Registered; after.Live != before.Live {
			t.Errorf("%d regions are registered, %d before", after.Live, before.Live)
		}
		x.send(x.s.Next(10))
		eventually(t, "message", func() bool { return len(x.hb.Got()) == 1 })
	})
}

// A link that ends while operations are under way, by either side and in either way,
// ends each of them once, before its handler hears of it; nothing touches their memory
// afterwards, nothing is begun, and no registration is left.
func TestOperationsEndWithTheLink(t *testing.T) {
	bubbleOn(t, lan, func(t *testing.T) {
		e := newEnv(t, Options{Config: iwarp.Config{EventLoops: 1}}, Options{Config: iwarp.Config{EventLoops: 1}})
		a := e.A.(*Transport)
		accepted := e.Accepted(t)
		key := expose(t, e.B.(*Transport), make([]byte, 1<<16))
		before := a.Regions().Stats().Registered
		r := rand.New(rand.NewPCG(6, 0))
		for round := range 60 {
			x := &stream{t: t, key: key, ha: transporttest.NewHearer(1 << 16), hb: transporttest.NewHearer(1 << 16), at: int64(1 + r.IntN(200)), due: make(chan struct{})}
			x.a, x.b = e.Dial(t, accepted)
			x.endWith(round/2%2 == 0, []transport.CloseMode{transport.Drain, transport.Abort}[round%2])
		}
		if after := a.Regions().Stats().Registered; after.Live != before.Live {
			t.Errorf("%d regions are registered, %d before", after.Live, before.Live)
		}
	})
}

// stream is a link with one operation after the other.
type stream struct {
	t            testing.TB
	a, b         transport.Link
	ha, hb       *transporttest.Hearer
	key          uint32
	begun, ended atomic.Int64
	at           int64 // due is closed when so many have ended
	due          chan struct{}
}

// endWith has the link end under operations: our side closes it, or the peer.
func (x *stream) endWith(ours bool, mode transport.CloseMode) {
	x.t.Helper()
	must(x.t, errors.Join(x.a.Start(x.ha), x.b.Start(x.hb)))
	var writer sync.WaitGroup
	writer.Go(x.write)
	<-x.due
	if ours {
		x.a.Close(mode)
	} else {
		x.b.Close(mode)
	}
	if mode == transport.Drain {
		x.a.Close(mode)
		x.b.Close(mode)
	}
	<-x.ha.Over
	<-x.hb.Over
	writer.Wait()
	if b, e := x.begun.Load(), x.ended.Load(); b != e {
		x.t.Fatalf("%d operations were begun, %d have ended", b, e)
	}
	if n, err := x.a.Send([]transport.Frame{{Ops: []*transport.Operation{{Kind: transport.OpWrite, Key: x.key}}}}); n != (transport.Taken{}) || err != nil {
		x.t.Fatalf("after the end: %+v, %v", n, err)
	}
}

// write begins operations until the link has ended.
func (x *stream) write() {
	for {
		n, err := x.a.Send([]transport.Frame{{Ops: []*transport.Operation{x.next()}}})
		switch {
		case err != nil:
			x.t.Error(err)
			return
		case n.Frames == 1:
			x.begun.Add(1)
		default:
			select {
			case <-x.ha.Room:
			case <-x.ha.Over:
				return
			}
		}
	}
}

func (x *stream) next() *transport.Operation {
	n := x.begun.Load()
	mem := make([]byte, 8+8*(n%100))
	op := &transport.Operation{Kind: transport.OpKind(n % 3), Local: [][]byte{mem}, Key: x.key}
	op.Addr = uint64(op.Kind) << 12 // places of their own, for the race detector
	if op.Kind == transport.OpFetchAdd {
		op.Local[0] = mem[:8]
	}
	op.Done = func(*transport.Operation, transport.OpStatus) {
		select {
		case <-x.ha.Over:
			x.t.Error("an operation ended after the link")
		default:
		}
		for i := range mem { // the race detector sees who else does
			mem[i] = 0xee
		}
		if x.ended.Add(1) == x.at {
			close(x.due)
		}
	}
	return op
}

// Of a write that ends beyond its region nothing is placed if it fits a segment. Of a
// longer one the segments before the one that does not fit may be: nothing else is.
func TestWriteBeyondTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const region = 128 << 10
		x := newOperators(t, Options{}, region, nil)
		for _, c := range []struct{ at, size int }{{region - 100, 101}, {region - 1000, 60_000}, {region / 2, region}} {
			status := make(chan transport.OpStatus, 1)
			x.operate(&transport.Operation{Kind: transport.OpWrite, Local: [][]byte{bytes.Repeat([]byte{1}, c.size)}, Key: x.key, Addr: uint64(c.at),
				Done: func(_ *transport.Operation, s transport.OpStatus) { status <- s }})
			if s := <-status; s != transport.OpRefused {
				t.Errorf("%+v: ended with %d", c, s)
			}
			if n := bytes.IndexByte(x.mem, 1); n >= 0 && (c.size < 64<<10 || n < c.at) {
				t.Errorf("%+v: something is placed at %d", c, n)
			}
			clear(x.mem)
		}
	})
}
