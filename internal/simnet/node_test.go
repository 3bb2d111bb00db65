package simnet_test

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rds-go/rds/internal/simnet"
	"github.com/rds-go/rds/rds"
	"github.com/rds-go/rds/transport"
)

var nodeSeeds = flag.Int("simnet.nodes", 24, "number of seeds of the tests with whole nodes")

// world is two nodes on a network that fails.
type world struct {
	t     *testing.T
	seed  uint64
	rng   *rand.Rand
	net   *simnet.Network
	paths int
	node  [2]*rds.Node
	addr  [2]netip.Addr
	via   [2]transport.Transport
	once  sync.Once
}

// fail reports, once with what the nodes say of themselves.
func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Errorf("seed %d: %s", w.seed, fmt.Sprintf(format, args...))
	w.once.Do(func() {
		for i, n := range w.node {
			if info, err := n.Info(); err == nil {
				w.t.Logf("node %d: %+v\nsockets %+v\nqueued %d, unacknowledged %d", i, info.Connections, info.Sockets, len(info.SendQueue), len(info.Retransmit))
			}
		}
	})
}

// inBubble runs f in a bubble for each seed.
func inBubble(t *testing.T, f func(w *world)) {
	for seed := range uint64(*nodeSeeds) {
		synctest.Test(t, func(t *testing.T) {
			w := &world{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 9)), paths: []int{1, 8}[seed%2]}
			w.net = simnet.NewNetwork(seed, simnet.Faults{
				Latency: time.Duration(1+w.rng.IntN(2000)) * time.Microsecond, Reading: 3 * time.Millisecond,
				Cut: 0.4, CutSize: 1 << (8 + w.rng.IntN(12)), Late: 50 * time.Millisecond, Stall: 0.01, Silence: time.Second,
				Half: 0.002, Refuse: 0.1, Reject: 0.1,
			})
			for i := range w.node {
				w.addr[i] = netip.AddrFrom4([4]byte{10, 0, 0, byte(1 + i)})
				w.boot(i)
			}
			f(w)
			for _, n := range w.node {
				if err := n.Close(); err != nil {
					w.fail("Close: %v", err)
				}
			}
		})
		if t.Failed() {
			return
		}
	}
}

func (w *world) boot(i int) {
	w.via[i] = w.net.Transport()
	n, err := rds.NewNode(rds.Config{Paths: w.paths, Transport: w.via[i], Linger: time.Minute, ReceiveBuffer: 64 << 10, SendBuffer: 256 << 10})
	if err != nil {
		w.t.Fatal(err)
	}
	w.node[i] = n
}

func (w *world) bind(i int, port uint16) *rds.Socket {
	s, err := w.node[i].Bind(netip.AddrPortFrom(w.addr[i], port))
	if err != nil {
		w.t.Fatalf("seed %d: %v", w.seed, err)
	}
	return s
}

func fill(n uint64, size int) []byte {
	b := make([]byte, 8+size)
	binary.BigEndian.PutUint64(b, n)
	for i := range b[8:] {
		b[8+i] = byte(n) + byte(i)
	}
	return b
}

func check(b []byte, want uint64) error {
	if len(b) < 8 {
		return fmt.Errorf("%d bytes", len(b))
	}
	if n := binary.BigEndian.Uint64(b); n != want {
		return fmt.Errorf("message %d instead of %d", n, want)
	}
	for i, v := range b[8:] {
		if v != byte(want)+byte(i) {
			return fmt.Errorf("message %d is damaged at byte %d", want, i)
		}
	}
	return nil
}

// Streams both ways between several sockets, some of whose readers are slow
// enough to be congested, through everything a network does: each message once
// and in order.
func TestNodesDeliverExactly(t *testing.T) {
	inBubble(t, func(w *world) {
		const sockets, messages = 3, 120
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		var wg sync.WaitGroup
		for i := range w.node {
			for k := range sockets {
				s := w.bind(i, uint16(4000+k))
				to := netip.AddrPortFrom(w.addr[1-i], uint16(4000+k))
				rng := rand.New(rand.NewPCG(w.seed, uint64(i*10+k)))
				wg.Go(func() {
					for n := range uint64(messages) {
						size := rng.IntN(500)
						if rng.IntN(10) == 0 {
							size = rng.IntN(60 << 10)
						}
						if err := s.Send(ctx, to, fill(n, size)); err != nil {
							w.fail("send of %d: %v", n, err)
							return
						}
						if rng.IntN(4) == 0 {
							pause(ctx, time.Duration(rng.IntN(20))*time.Millisecond)
						}
					}
				})
				slow := k == 0
				wg.Go(func() {
					for n := range uint64(messages) {
						m, err := s.Recv(ctx)
						if err != nil {
							w.fail("socket %d of node %d waits for %d: %v", k, i, n, err)
							return
						}
						if err := check(m.Data, n); err != nil {
							w.fail("socket %d of node %d: %v", k, i, err)
							return
						}
						m.Release()
						if slow {
							pause(ctx, 10*time.Millisecond)
						}
					}
				})
			}
		}
		pause(ctx, 2*time.Second)
		w.net.CutAll(w.via[0])
		pause(ctx, 3*time.Second)
		w.net.Calm()
		wg.Wait()
	})
}

// pause waits in the bubble's time.
func pause(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}

// Close waits for what was sent: a peer that has it all does not miss a
// message, one that is gone costs the linger time and is reported.
func TestNodesCloseLingers(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.bind(0, 4000), w.bind(1, 4000)
		ctx := context.Background()
		const messages = 100
		for n := range uint64(messages) {
			if err := a.Send(ctx, b.LocalAddrPort(), fill(n, 300)); err != nil {
				w.fail("send: %v", err)
			}
		}
		w.net.Calm()
		if err := a.Close(); err != nil {
			w.fail("Close: %v", err)
		}
		for n := range uint64(messages) {
			m, err := b.Recv(ctx)
			if err == nil {
				err = check(m.Data, n)
			}
			if err != nil {
				w.fail("%v", err)
				return
			}
			m.Release()
		}
		c := w.bind(0, 4001)
		if err := c.Send(ctx, netip.AddrPortFrom(netip.MustParseAddr("10.0.0.99"), 4000), fill(0, 10)); err != nil {
			w.fail("send: %v", err)
		}
		c.SetLinger(3 * time.Second)
		start := time.Now()
		var dropped *rds.DroppedError
		if err := c.Close(); !errors.As(err, &dropped) || dropped.Messages != 1 {
			w.fail("Close to nobody: %v", err)
		}
		if d := time.Since(start); d != 3*time.Second {
			w.fail("Close to nobody took %v", d)
		}
	})
}

// A node is replaced by another while messages flow: the new one hears only
// what is sent to it, in order and once, and both sides go on.
func TestNodesRestart(t *testing.T) {
	inBubble(t, func(w *world) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		const lives, per = 4, 60
		a := w.bind(0, 4000)
		to := netip.AddrPortFrom(w.addr[1], 4000)
		var stop bool
		var wg sync.WaitGroup
		stopped, halt := context.WithCancel(ctx)
		wg.Go(func() {
			for n := uint64(0); stopped.Err() == nil; n++ {
				if err := a.Send(stopped, to, fill(n, int(n%700))); err != nil {
					return
				}
				pause(stopped, time.Millisecond)
			}
		})
		for life := range lives {
			b := w.bind(1, 4000)
			last := uint64(0)
			for k := range per {
				m, err := b.Recv(ctx)
				if err != nil {
					w.fail("life %d, message %d: %v", life, k, err)
					stop = true
					break
				}
				n := binary.BigEndian.Uint64(m.Data)
				if err := check(m.Data, n); err != nil || k > 0 && n <= last {
					w.fail("life %d: message %d after %d: %v", life, n, last, err)
				}
				last = n
				m.Release()
			}
			if life == lives-1 || stop {
				break
			}
			b.SetLinger(0)
			if err := w.node[1].Close(); err != nil {
				w.fail("Close: %v", err)
			}
			pause(ctx, time.Duration(w.rng.IntN(300))*time.Millisecond)
			w.boot(1)
		}
		w.net.Calm()
		halt()
		wg.Wait()
		a.SetLinger(time.Second)
		if err := a.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			var dropped *rds.DroppedError
			if !errors.As(err, &dropped) {
				w.fail("Close: %v", err)
			}
		}
	})
}
