//go:build live

package rds

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
)

func TestStreamsOverTheHostsSockets(t *testing.T) {
	t.Parallel()
	for _, paths := range []int{1, 8} {
		streams(t, newLab(t), paths)
	}
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
