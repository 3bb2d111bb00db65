//go:build live

package rds

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
)

// cut ends at least two of the connections between two addresses at once, behind the
// back of both nodes: some with a reset, at either end or at both. It waits until there
// are at least least of them.
func cut(t testing.TB, random *rand.Rand, a, b netip.Addr, least int, stop *atomic.Bool) (n int) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	fds := rdstest.ConnectionsBetween(t, random, a, b)
	for end := time.Now().Add(rdstest.Patience); len(fds) < 2*least; fds = rdstest.ConnectionsBetween(t, random, a, b) {
		if <-tick.C; stop.Load() {
			return 0
		}
		if time.Now().After(end) {
			t.Errorf("%d connections and no more", len(fds)/2)
			stop.Store(true)
			return 0
		}
	}
	for _, fd := range fds[:min(len(fds), 3+random.IntN(len(fds)))] { // of three ends two are of different connections
		if rdstest.Shut(random, fd) {
			n++
		}
	}
	return n
}

// Two nodes with 8 paths, between which several connections at once are cut, again and
// again, at whatever byte of whatever message they are, while 12 sockets on each side
// send to 12 on the other: every message is received once and in order. So it is
// although over TCP, unlike with Linux 6.1, it is the source port that tells the paths
// of links apart which come back all at once, and no order.
//
// It is not parallel: descriptors are not to be other tests'.
func TestSeveralOfEightPathsAreCut(t *testing.T) {
	sockets, times := 12, 10
	if os.Getenv("RDS_LONG") != "" {
		times = 1000
	}
	for _, wire := range []Wire{WireTCP, WireXRC} {
		t.Run(string(wire), func(t *testing.T) {
			seed := rand.Uint64()
			random := rand.New(rand.NewPCG(seed, 0))
			defer func() {
				if t.Failed() {
					t.Logf("seed %d", seed)
				}
			}()
			l := newLab(t)
			var nodes [2]*Node
			var at [2]netip.Addr
			var ends [2][]*Socket
			for i := range nodes {
				nodes[i], at[i] = l.node(Config{Paths: 8, Wire: wire}), rdstest.NewAddr()
				for port := range sockets {
					ends[i] = append(ends[i], l.bind(nodes[i], netip.AddrPortFrom(at[i], uint16(4000+port))))
				}
			}
			ctx, cancel := context.WithTimeout(context.Background(), 10*rdstest.Patience)
			defer cancel()
			var stop atomic.Bool
			var messages atomic.Int64
			var wg sync.WaitGroup
			for i := range ends {
				for k, s := range ends[i] {
					other := ends[1-i][k]
					wg.Go(func() {
						n, err := untilStopped(ctx, s, other, &stop)
						if messages.Add(int64(n)); err != nil {
							t.Errorf("%v to %v, after %d messages: %v", s.LocalAddrPort(), other.LocalAddrPort(), n, err)
							stop.Store(true)
						}
					})
				}
			}
			shut, cuts := 0, 0
			for ; cuts < times && !stop.Load(); cuts++ {
				<-time.After(time.Duration(random.IntN(50)) * time.Millisecond)
				shut += cut(t, random, at[0], at[1], 2+random.IntN(7), &stop)
			}
			stop.Store(true)
			wg.Wait()
			t.Logf("%d messages, %d ends of connections cut in %d cuts", messages.Load(), shut, cuts)
		})
	}
}

// untilStopped sends verified messages of all sizes from one socket to another until stop,
// and returns their number when all are received.
func untilStopped(ctx context.Context, from, to *Socket, stop *atomic.Bool) (n int, err error) {
	sent := make(chan error, 1)
	go func() {
		sent <- func() error {
			random := rand.New(rand.NewPCG(uint64(from.LocalAddrPort().Port()), 1))
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for i := uint64(0); ; i++ {
				if i%4 == 0 {
					<-tick.C // or new links would wait long for their turn on two processors
				}
				size, last := 9+random.IntN(2000), stop.Load()
				if random.IntN(50) == 0 {
					size = random.IntN(200 << 10)
				}
				if last {
					size = 8
				} else {
					size = max(9, size)
				}
				if err := from.Send(ctx, to.LocalAddrPort(), rdstest.Payload(i, size)); err != nil || last {
					return err
				}
			}
		}()
	}()
	for {
		m, err := to.Recv(ctx)
		if err == nil {
			err = rdstest.Verify(m.Data, uint64(n))
		}
		if err != nil {
			return n, errors.Join(err, <-sent)
		}
		last := len(m.Data) == 8
		m.Release()
		if n++; last {
			return n, <-sent
		}
	}
}
