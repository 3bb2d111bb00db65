//go:build live

package rds

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/invariants"
	"github.com/rds-go/rds/internal/rdstest"
)

// The data path allocates nothing per message: both nodes are in this process,
// so what is counted is sending, acknowledging and receiving together. These
// tests count all allocations of the process and do not run beside others.

func skipUnlessExact(t testing.TB) {
	t.Helper()
	if invariants.Enabled {
		t.Skip("the race detector and -tags invariants allocate: run without them")
	}
}

// allocations returns how many allocations one call of f, which moves some
// bytes, takes on average. In between it collects no garbage: a pool that is
// emptied must be filled again.
func allocations(bytes int, f func()) float64 {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runs := max(100, min(1000, 32<<20/max(1, bytes)))
	for range runs { // queues reach their size
		f()
	}
	return testing.AllocsPerRun(runs, f)
}

func TestMessagesAllocateNothing(t *testing.T) {
	skipUnlessExact(t)
	for _, size := range []int{0, 64, 1 << 10, 8 << 10, 16<<10 + 1, 64 << 10, 256 << 10} {
		for name, l := range map[string]*lab{"tcp": newLab(t), "loop": newLoopLab(t)} {
			a, b := l.pair(Config{})
			ctx := context.Background()
			data := make([]byte, size)
			room := make([]byte, size)
			to, back := b.LocalAddrPort(), a.LocalAddrPort()
			check := func(err error) {
				rdstest.Must(t, err)
			}
			for _, c := range []struct {
				name string
				call func()
			}{
				{"WriteToAddrPort, ReadFromAddrPort", func() {
					_, err := a.WriteToAddrPort(data, to)
					check(err)
					_, _, err = b.ReadFromAddrPort(room)
					check(err)
				}},
				{"there and back", func() {
					_, err := a.WriteToAddrPort(data, to)
					check(err)
					_, from, err := b.ReadFromAddrPort(room)
					check(err)
					_, err = b.WriteToAddrPort(room, from)
					check(err)
					_, _, err = a.ReadFromAddrPort(data)
					check(err)
				}},
				{"Send, Recv", func() {
					check(a.Send(ctx, to, data))
					m, err := b.Recv(ctx)
					check(err)
					m.Release()
				}},
				{"TrySend, poll, TryRecv", func() {
					for b.Poll()&PollOut == 0 { // a refusal would be an error, which is allocated
						runtime.Gosched() // what acknowledges has no processor of its own here
					}
					check(b.TrySend(back, data))
					for ev := Events(0); ev&(PollIn|PollWrBand) != PollIn; ev = a.Poll() { // a map is news too
						runtime.Gosched()
					}
					m, err := a.TryRecv()
					check(err)
					m.Release()
				}},
			} {
				if size >= 64<<10 && c.name == "there and back" {
					continue
				}
				if n := allocations(size, c.call); n >= 1 {
					t.Errorf("%s, %d bytes, %s: %v allocations per message", name, size, c.name, n)
				}
			}
			_ = nodeOf(a).Close()
			_ = nodeOf(b).Close()
		}
	}
}

func TestBatchesAllocateNothing(t *testing.T) {
	skipUnlessExact(t)
	for name, l := range map[string]*lab{"tcp": newLab(t), "loop": newLoopLab(t)} {
		a, b := l.pair(Config{})
		ctx := context.Background()
		const each = 64
		out := make([]Outgoing, each)
		bufs := make([]Message, each)
		in := make([]Message, each)
		for _, c := range []struct {
			name string
			size int
			zero bool
		}{
			{"copied", 64, false},
			{"small buffers", 64, true},
			{"large buffers", 32 << 10, true},
		} {
			n := allocations(c.size*each, func() {
				for i := range out {
					out[i] = Outgoing{To: b.LocalAddrPort()}
					if c.zero {
						bufs[i] = a.AllocMessage(c.size)
						out[i].Buffer = &bufs[i]
					} else {
						out[i].Data = rdstest.Pattern[:c.size]
					}
				}
				if k, err := a.SendBatch(ctx, out); k != each || err != nil {
					t.Fatal(k, err)
				}
				for got := 0; got < each; {
					k, err := b.RecvBatch(ctx, in)
					rdstest.Must(t, err)
					for i := range in[:k] {
						in[i].Release()
					}
					got += k
				}
			})
			if n > each/16 { // the memory of queues comes and goes with bursts
				t.Errorf("%s, %s: %v allocations per batch of %d", name, c.name, n, each)
			}
		}
	}
}

// An operation is one piece of memory for the node, and the message behind it one
// for the transport; those that ask for one are none.
func TestOperationsAllocateLittle(t *testing.T) {
	skipUnlessExact(t)
	l := newLab(t)
	asks, serves := l.pair(Config{Wire: WireXRC})
	ctx := context.Background()
	const each, size = 32, 8 << 10
	c := rdstest.MustGetMR(t, asks, make([]byte, each*size), 0)
	blocks := make([]byte, each*size)
	out, in, ops, local := make([]Outgoing, each), make([]Message, each), make([]RDMA, each), make([][1][]byte, each)
	batch := func(from, to *Socket) {
		if k, err := from.SendBatch(ctx, out); k != each || err != nil {
			t.Fatal(k, err)
		}
		for got := 0; got < each; {
			k, err := to.RecvBatch(ctx, in)
			rdstest.Must(t, err)
			for i := range in[:k] {
				in[i].Release()
			}
			got += k
		}
	}
	n := allocations(each*size, func() {
		for i := range out {
			out[i] = Outgoing{To: serves.LocalAddrPort(), Data: rdstest.Pattern[:8], HasDest: true, Dest: c}
		}
		batch(asks, serves)
		for i := range out {
			local[i][0] = blocks[i*size:][:size]
			ops[i] = RDMA{Cookie: c, Offset: uint64(i * size), Local: local[i][:], Write: true}
			out[i] = Outgoing{To: asks.LocalAddrPort(), Data: rdstest.Pattern[:8], RDMA: &ops[i]}
		}
		batch(serves, asks)
	})
	if n > 1.5*each {
		t.Errorf("%v allocations per batch of %d", n, each)
	}
}

// Ten thousand sockets are map entries, not descriptors or goroutines.
func TestTenThousandSockets(t *testing.T) {
	const count = 10_000
	l := newLab(t)
	n := l.node(Config{})
	at := rdstest.NewAddr()
	socks := make([]*Socket, count)
	goroutines := runtime.NumGoroutine()
	before := rdstest.Heap()
	start := time.Now()
	for i := range socks {
		s, err := n.Bind(netip.AddrPortFrom(at, 0))
		rdstest.Must(t, err)
		socks[i] = s
	}
	took := time.Since(start)
	each := (rdstest.Heap() - before) / count
	t.Logf("%d bytes each, %v in all", each, took)
	if n := runtime.NumGoroutine() - goroutines; n > 5 {
		t.Errorf("PROMISE: %d more goroutines", n)
	}
	a := l.bindOne(Config{})
	for _, i := range []int{0, 1, count / 2, count - 1} {
		rdstest.MustSend(t, a, socks[i].LocalAddrPort(), rdstest.Payload(uint64(i), 64))
		m := rdstest.MustRecv(t, socks[i])
		rdstest.NoError(t, rdstest.Verify(m.Data, uint64(i)))
		m.Release()
	}
	if invariants.Enabled {
		t.Log("figures not judged: built with invariants or the race detector")
		return
	}
	if each > 2<<10 {
		t.Errorf("%d bytes each", each)
	}
	if took > 2*time.Second {
		t.Errorf("%v in all", took)
	}
}

func BenchmarkOneWay(b *testing.B) {
	for _, size := range []int{64, 1 << 10, 64 << 10, 1 << 20} {
		for _, batch := range []int{1, 64} {
			b.Run(fmt.Sprintf("size=%d/batch=%d", size, batch), func(b *testing.B) {
				x, y := newLab(b).pair(Config{SendBuffer: 8 << 20, ReceiveBuffer: 8 << 20})
				ctx, cancel := context.WithCancel(context.Background())
				total := make(chan int, 1)
				done := make(chan struct{})
				go func() {
					defer close(done)
					want, got := -1, 0
					ms := make([]Message, 256)
					for want < 0 || got < want {
						select {
						case want = <-total:
							continue
						default:
						}
						k, err := y.RecvBatch(ctx, ms)
						if err != nil {
							return
						}
						for i := range ms[:k] {
							ms[i].Release()
						}
						got += k
					}
				}()
				to := y.LocalAddrPort()
				out := make([]Outgoing, batch)
				for i := range out {
					out[i] = Outgoing{To: to, Data: rdstest.Pattern[:size]}
				}
				b.SetBytes(int64(size))
				b.ReportAllocs()
				n := 0
				for b.Loop() {
					if batch == 1 {
						if _, err := x.WriteToAddrPort(rdstest.Pattern[:size], to); err != nil {
							b.Fatal(err)
						}
						n++
					} else if n++; n%batch == 0 {
						if _, err := x.SendBatch(ctx, out); err != nil {
							b.Fatal(err)
						}
					}
				}
				total <- n/batch*batch + 1
				rdstest.Must(b, x.Send(ctx, to, nil)) // wakes the receiver to see the total
				<-done
				cancel()
			})
		}
	}
}

func BenchmarkPingPong(b *testing.B) {
	x, y := newLab(b).pair(Config{})
	go func() {
		buf := make([]byte, 64)
		for {
			n, from, err := y.ReadFromAddrPort(buf)
			if err != nil {
				return
			}
			if _, err := y.WriteToAddrPort(buf[:n], from); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, 64)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := x.WriteToAddrPort(buf, y.LocalAddrPort()); err != nil {
			b.Fatal(err)
		}
		if _, _, err := x.ReadFromAddrPort(buf); err != nil {
			b.Fatal(err)
		}
	}
}
