package loop

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/transporttest"
)

// operators is a link to a transport that exposes a region.
type operators struct {
	t      testing.TB
	from   transport.Link
	to     transport.Link
	ha, hb *transporttest.Hearer
	owner  *mr.Owner
	domain *mr.Domain
	mem    []byte
	key    uint32
	s      transporttest.Sender // makes messages
}

// newOperators makes a link that is not started.
func newOperators(t testing.TB, region int) *operators {
	t.Helper()
	dev, err := mr.New(mr.Config{})
	if err != nil {
		t.Fatal(err)
	}
	e := newEnv()
	x := &operators{t: t, ha: transporttest.NewHearer(16), hb: transporttest.NewHearer(16), owner: dev.NewOwner(mr.OwnerConfig{}), domain: dev.NewDomain()}
	e.B.(*Transport).Expose(func(netip.Addr) func(uint16) *mr.Domain { return func(uint16) *mr.Domain { return x.domain } })
	t.Cleanup(func() {
		if err := errors.Join(e.A.Close(), e.B.Close(), dev.Close()); err != nil {
			t.Error(err)
		}
	})
	x.mem = make([]byte, region)
	x.key = x.expose(x.mem, mr.Options{})
	a, b := e.Dial(t, e.Accepted(t))
	if !a.Caps().Operations || b.Caps().Operations {
		t.Error("operations are not towards who exposes memory, and nobody else")
	}
	x.from, x.to = a, b
	x.s.Link = a
	return x
}

func (x *operators) start() {
	x.t.Helper()
	if err := errors.Join(x.from.Start(x.ha), x.to.Start(x.hb)); err != nil {
		x.t.Fatal(err)
	}
}

func (x *operators) expose(mem []byte, opt mr.Options) uint32 {
	x.t.Helper()
	opt.Domain = x.domain
	if opt.Rights == 0 {
		opt.Rights = mr.LocalWrite | mr.RemoteRead | mr.RemoteWrite | mr.RemoteAtomic
		opt.Base = 16 // with a base not 0, nothing is found below it
	}
	k, err := x.owner.Register(mem, opt)
	if err != nil {
		x.t.Fatal(err)
	}
	return uint32(k)
}

func (x *operators) wait(c <-chan struct{}, what string) {
	x.t.Helper()
	select {
	case <-c:
	case <-time.After(transporttest.Patience):
		x.t.Fatalf("no %s", what)
	}
}

// operate does operations, waiting for their turn, and returns how they ended.
func (x *operators) operate(ops ...*transport.Operation) []transport.OpStatus {
	x.t.Helper()
	var ends []transport.OpStatus
	for _, op := range ops {
		op.Done = func(_ *transport.Operation, s transport.OpStatus) { ends = append(ends, s) }
	}
	x.send(transport.Frame{Ops: ops})
	return ends
}

// send sends frames, waiting for room.
func (x *operators) send(frames ...transport.Frame) {
	x.t.Helper()
	for {
		var err error
		if frames, err = x.s.Try(frames); err != nil {
			x.t.Fatal(err)
		}
		if len(frames) == 0 {
			return
		}
		x.wait(x.ha.Room, "Writable")
	}
}

// A message comes when what its operations write is in place, not at all if one is
// refused, and what follows it comes in any case. All of it counts as acknowledged.
func TestMessagesFollowTheirOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rounds = 500
		x := newOperators(t, 8*rounds)
		x.hb.OnMessage = func(seq uint64) {
			if seq%2 == 0 && binary.BigEndian.Uint64(x.mem[seq/2*8:]) != seq+1 {
				t.Errorf("message %d before its data", seq)
			}
		}
		x.start()
		r := rand.New(rand.NewPCG(4, 4))
		var want []uint64
		for i := range uint64(rounds) {
			op := func(key uint32) *transport.Operation {
				return &transport.Operation{Kind: transport.OpWrite, Local: [][]byte{binary.BigEndian.AppendUint64(nil, 2*i+1)}, Key: key, Addr: 16 + 8*i}
			}
			good, bad := func() *transport.Operation { return op(x.key) }, func() *transport.Operation { return op(x.key + 1) }
			ok, no := transport.OpSuccess, transport.OpRefused
			if r.IntN(4) == 0 { // what is wrong with it is no matter of the next message
				x.operate(bad())
			}
			var ops []*transport.Operation
			var ends, wants []transport.OpStatus
			switch r.IntN(4) {
			case 0:
				ops, wants = []*transport.Operation{good(), bad(), good()}, []transport.OpStatus{ok, no, ok}
			case 1:
				ops, wants = []*transport.Operation{bad()}, []transport.OpStatus{no}
			default:
				ops, wants = []*transport.Operation{good()}, []transport.OpStatus{ok}
				want = append(want, 2*i)
			}
			for _, op := range ops {
				op.Done = func(_ *transport.Operation, s transport.OpStatus) { ends = append(ends, s) }
			}
			f := x.s.Next(r.IntN([]int{1, 100, 5000, 200_000}[r.IntN(4)]) + 1)
			f.Ops = ops
			x.send(f, x.s.Next(r.IntN(300)))
			if !slices.Equal(ends, wants) {
				t.Errorf("operations of message %d ended with %v, want %v", 2*i, ends, wants)
			}
			want = append(want, 2*i+1)
		}
		x.operate(&transport.Operation{Kind: transport.OpRead, Local: [][]byte{make([]byte, 1)}, Key: x.key, Addr: 16}) // behind everything
		if acked, written := x.from.Acked(), x.from.Stats().Written; acked != written {
			t.Errorf("%d bytes acknowledged of %d", acked, written)
		}
		if got := x.hb.Got(); !slices.Equal(got, want) {
			t.Errorf("%d messages came, not the %d that should", len(got), len(want))
		}
	})
}

// Operations come behind what was written before: until that is delivered the link
// is full.
func TestOperationsComeBehindMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newOperators(t, 8)
		x.hb.OnMessage = func(uint64) {
			if x.mem[0] != 0 {
				t.Error("the write has come before the message")
			}
		}
		if err := x.from.Start(x.ha); err != nil {
			t.Fatal(err)
		}
		x.send(x.s.Next(100))
		op := &transport.Operation{Kind: transport.OpWrite, Local: [][]byte{{1}}, Key: x.key, Addr: 16, Done: func(*transport.Operation, transport.OpStatus) {
			t.Error("done on a link that was full")
		}}
		if n, err := x.from.Send([]transport.Frame{{Ops: []*transport.Operation{op}}}); n != (transport.Taken{}) || err != nil {
			t.Fatalf("%+v, %v: the peer has not started", n, err)
		}
		if err := x.to.Start(x.hb); err != nil {
			t.Fatal(err)
		}
		x.wait(x.ha.Room, "Writable")
		if ends := x.operate(op); ends[0] != transport.OpSuccess || x.mem[0] != 1 || len(x.hb.Got()) != 1 {
			t.Errorf("%v, % x, messages %v", ends, x.mem, x.hb.Got())
		}
	})
}

// What is refused over a wire is refused here, and changes nothing.
func TestRefusedOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newOperators(t, 200_000)
		x.start()
		readable := x.expose(make([]byte, 64), mr.Options{Rights: mr.RemoteRead})
		elsewhere := x.expose(make([]byte, 64), mr.Options{Rights: mr.RemoteRead, Peer: newEnv().Nobody})
		dead := x.expose(make([]byte, 64), mr.Options{})
		if err := x.owner.Free(mr.Key(dead)); err != nil {
			t.Fatal(err)
		}
		local := slices.Repeat([]byte{0xff}, 150_000)
		word := make([]byte, 8)
		for _, c := range []struct {
			name string
			op   transport.Operation
		}{
			{"write of a dead key", transport.Operation{Kind: transport.OpWrite, Key: dead, Addr: 16, Local: [][]byte{{1}}}},
			{"write beyond the end, in its last chunk", transport.Operation{Kind: transport.OpWrite, Key: x.key, Addr: 16 + 50_001, Local: [][]byte{local}}},
			{"write below the base", transport.Operation{Kind: transport.OpWrite, Key: x.key, Addr: 15, Local: [][]byte{{1}}}},
			{"write that wraps", transport.Operation{Kind: transport.OpWrite, Key: x.key, Addr: ^uint64(0), Local: [][]byte{{1}, {1}}}},
			{"write without the right", transport.Operation{Kind: transport.OpWrite, Key: readable, Local: [][]byte{{1}}}},
			{"read beyond the end", transport.Operation{Kind: transport.OpRead, Key: x.key, Addr: 16 + 50_001, Local: [][]byte{local}}},
			{"read of another host's", transport.Operation{Kind: transport.OpRead, Key: elsewhere, Local: [][]byte{local[:1]}}},
			{"atomic without the right", transport.Operation{Kind: transport.OpFetchAdd, Key: readable, Local: [][]byte{word}, Add: 1}},
			{"atomic beyond the end", transport.Operation{Kind: transport.OpCompareSwap, Key: x.key, Addr: 16 + 200_000, Local: [][]byte{word}, SwapMask: 1, Swap: 1}},
		} {
			if ends := x.operate(&c.op); ends[0] != transport.OpRefused {
				t.Errorf("%s ended with %v", c.name, ends)
			}
		}
		if slices.ContainsFunc(x.mem, func(b byte) bool { return b != 0 }) || slices.ContainsFunc(local, func(b byte) bool { return b != 0xff }) {
			t.Error("memory was changed")
		}
		for _, op := range []transport.Operation{
			{Kind: transport.OpCompareSwap + 1},
			{Kind: transport.OpFetchAdd, Key: x.key, Addr: 20, Local: [][]byte{word}},
			{Kind: transport.OpFetchAdd, Key: x.key, Addr: 16, Local: [][]byte{word[:4]}},
		} {
			var about *transport.FrameError
			if n, err := x.from.Send([]transport.Frame{{Ops: []*transport.Operation{&op}}}); n != (transport.Taken{}) || !errors.As(err, &about) {
				t.Errorf("%+v: %+v, %v", op, n, err)
			}
		}
	})
}

// The end of the link, from either side, comes after the operations that were
// begun; later ones are not.
func TestOperationsAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, mode := range []transport.CloseMode{transport.Drain, transport.Abort} {
			for _, own := range []bool{true, false} {
				x := newOperators(t, 8)
				x.start()
				op := func() *transport.Operation {
					return &transport.Operation{Kind: transport.OpFetchAdd, Local: [][]byte{make([]byte, 8)}, Key: x.key, Addr: 16, Add: 1}
				}
				x.operate(op())
				if own {
					x.from.Close(mode)
				} else {
					x.to.Close(mode)
				}
				if !own && mode == transport.Drain {
					x.from.Close(mode)
				}
				if own && mode == transport.Drain {
					x.to.Close(mode)
				}
				x.wait(x.ha.Over, "Closed")
				late := op()
				late.Done = func(*transport.Operation, transport.OpStatus) { t.Error("done after the end") }
				f := x.s.Next(1)
				for _, ops := range [][]*transport.Operation{{late}, nil} {
					f.Ops = ops
					if n, err := x.from.Send([]transport.Frame{f}); n != (transport.Taken{}) || !errors.Is(err, transport.ErrClosed) {
						t.Errorf("after the end: %+v, %v", n, err)
					}
				}
				if got := binary.NativeEndian.Uint64(x.mem); got != 1 {
					t.Errorf("%d was added", got)
				}
			}
		}
	})
}
