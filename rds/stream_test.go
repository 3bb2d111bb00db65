package rds

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
)

// Messages of every size arrive once, whole and in order, in both directions
// at once.
func TestStreams(t *testing.T) {
	for _, paths := range []int{1, 8} {
		t.Run(fmt.Sprintf("%d paths", paths), func(t *testing.T) {
			rdstest.Bubble(t, func(t *testing.T) { streams(t, newLoopLab(t), paths) })
		})
	}
}

func TestStreamsOverTheHostsSockets(t *testing.T) {
	t.Parallel()
	for _, paths := range []int{1, 8} {
		streams(t, newLab(t), paths)
	}
}

func streams(t *testing.T, l *lab, paths int) {
	t.Helper()
	sizes := []int{0, 1, 64, 5000, 16 << 10, 16<<10 + 1, 20_000, 100_000, MaxMessage}
	a, b := l.pair(Config{Paths: paths})
	var wg sync.WaitGroup
	ctx := rdstest.Background(t)
	for _, d := range [][2]*Socket{{a, b}, {b, a}} {
		wg.Go(func() {
			size := func(i int) int { return sizes[i%len(sizes)] / (1 + i/100) }
			if err := rdstest.Stream(ctx, d[0], d[1], 400, size); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// Both sides begin at the same moment, again and again.
func TestBothSidesConnectAtOnce(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		l := newLoopLab(t)
		for range 20 {
			a, b := l.pair(Config{Paths: 1 + 7*rand.IntN(2)})
			ctx := rdstest.Background(t)
			var wg sync.WaitGroup
			for _, d := range [][2]*Socket{{a, b}, {b, a}} {
				wg.Go(func() {
					if err := rdstest.Stream(ctx, d[0], d[1], 20, rdstest.Fixed(500)); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			_ = nodeOf(a).Close()
			_ = nodeOf(b).Close()
		}
	})
}

// Many goroutines use one socket, change its options and send to everybody,
// until it is closed under their hands.
func TestManyGoroutines(t *testing.T) {
	t.Parallel()
	for _, l := range []*lab{newLab(t), newLoopLab(t)} {
		n := l.node(Config{SendBuffer: 100_000, ReceiveBuffer: 50_000})
		socks := []*Socket{l.bind(n), l.bind(n), l.bind(l.node(Config{Paths: 8}))}
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		run := func(f func(s *Socket, r *rand.Rand) error) {
			for i, s := range socks {
				r := rand.New(rand.NewPCG(uint64(i), 7))
				wg.Go(func() {
					for {
						err := f(s, r)
						switch {
						case rdstest.Closed(err) || errors.Is(err, context.Canceled):
							return
						case err == nil || errors.Is(err, ErrWouldBlock) || errors.Is(err, ErrCongested):
						default:
							t.Error(err)
							return
						}
					}
				})
			}
		}
		to := func(r *rand.Rand) *Socket { return socks[r.IntN(len(socks))] }
		for range 2 {
			run(func(s *Socket, r *rand.Rand) error {
				return s.Send(ctx, to(r).LocalAddrPort(), rdstest.Payload(1, r.IntN(30_000)))
			})
			run(func(s *Socket, r *rand.Rand) error {
				m := s.AllocMessage(8 + r.IntN(30_000))
				err := s.TrySendMessage(&Outgoing{To: to(r).LocalAddrPort(), Buffer: &m, Notify: r.IntN(4) == 0})
				m.Release()
				return err
			})
			run(func(s *Socket, r *rand.Rand) error {
				m, err := s.Recv(ctx)
				m.Release()
				return err
			})
			run(func(s *Socket, r *rand.Rand) error {
				ms := make([]Message, 5)
				k, err := s.RecvBatch(ctx, ms)
				for i := range ms[:k] {
					ms[i].Release()
				}
				return err
			})
		}
		run(func(s *Socket, r *rand.Rand) error {
			if err := meddle(s, r, to(r).LocalAddrPort()); err != nil {
				return err
			}
			return ctx.Err()
		})
		for _, s := range socks {
			want := counter(t, nodeOf(s), "recv_delivered") + 100
			rdstest.Eventually(t, "traffic", func() bool { return counter(t, nodeOf(s), "recv_delivered") > want })
		}
		var ends sync.WaitGroup
		for _, s := range socks {
			ends.Go(func() { _ = s.Close() })
			ends.Go(func() { _ = s.Close() })
			ends.Go(func() { _ = nodeOf(s).Close() })
		}
		ends.Wait()
		cancel()
		wg.Wait()
	}
}

// meddle changes a setting of a socket, looks at something, or cancels.
func meddle(s *Socket, r *rand.Rand, to netip.AddrPort) error {
	switch r.IntN(8) {
	case 0:
		_ = s.SetCongestionMonitor(r.IntN(2) == 0)
	case 1:
		_ = s.SetReadBuffer(10_000 + r.IntN(100_000))
	case 2:
		_ = s.SetDeadline(time.Time{})
	case 3:
		_ = s.Connect(to)
	case 4:
		_, _ = nodeOf(s).Info()
	case 5:
		return s.CancelSentTo(to)
	case 6:
		_, _, err := s.ReadMessage(make([]byte, 10), Peek|DontWait)
		return err
	}
	s.Poll()
	return nil
}

// Binding and closing the node race; nothing may hang or stay.
func TestBindWhileClosing(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		for range 5 {
			l := newLoopLab(t)
			n := l.node(Config{})
			at := rdstest.AddrOf(rdstest.NewAddr(), 0)
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for {
						s, err := n.Bind(at)
						if errors.Is(err, ErrAddressInUse) {
							return // all ports: the node's end was slow to come
						}
						if err != nil {
							rdstest.WantErr(t, "bind", err, net.ErrClosed)
							return
						}
						wg.Go(func() { // ends when the node does
							if _, err := s.Recv(context.Background()); !rdstest.Closed(err) {
								t.Error(err)
							}
						})
					}
				})
			}
			for bound := 0; bound <= 10; { // those who bind leave virtual time no moment
				runtime.Gosched()
				info, _ := n.Info()
				bound = len(info.Sockets)
			}
			_ = n.Close()
			wg.Wait() // no socket of a closed node waits
		}
	})
}
