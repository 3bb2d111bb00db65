//go:build !live

package node

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

func TestRecvBatchTakesWhatIsThere(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		a, b := newLoopLab(t).pair(config.Node{})
		for _, s := range []string{"1", "2", "3", "4", "5"} {
			rdstest.MustSend(t, a, b.LocalAddrPort(), []byte(s))
		}
		rdstest.Eventually(t, "arrival", func() bool { return rdstest.Counter(t, nodeOf(b), "recv_queued") == 5 })
		ms := make([]datagram.Message, 3)
		ms[0].Token = 77 // leftovers must not show
		n, err := b.RecvBatch(rdstest.Background(t), ms)
		if n != 3 || err != nil || string(ms[0].Data) != "1" || string(ms[2].Data) != "3" || ms[0].Token != 0 {
			t.Fatal(n, err, ms)
		}
		if n, err = b.RecvBatch(rdstest.Background(t), ms); n != 2 || err != nil || string(ms[1].Data) != "5" {
			t.Fatal(n, err, ms)
		}
		if n, err = b.RecvBatch(rdstest.Background(t), nil); n != 0 || err != nil {
			t.Error(n, err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		n, err = b.RecvBatch(ctx, ms)
		rdstest.WantErr(t, "empty", err, context.DeadlineExceeded)
		if n != 0 {
			t.Error(n)
		}
	})
}

// SendBatch accepts leading messages; fewer than all come with the error of
// the first one refused.
func TestSendBatchIsPartial(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		a, b := newLoopLab(t).pair(config.Node{})
		to := b.LocalAddrPort()
		good := func(s string) datagram.Outgoing { return datagram.Outgoing{To: to, Data: []byte(s)} }
		multicast := datagram.Outgoing{To: netip.MustParseAddrPort("224.0.0.1:1")}
		for _, c := range []struct {
			name string
			out  []datagram.Outgoing
			n    int
			want error
		}{
			{"nothing", nil, 0, nil},
			{"all", []datagram.Outgoing{good("a"), good("b")}, 2, nil},
			{"the second is bad", []datagram.Outgoing{good("a"), multicast, good("b")}, 1, datagram.ErrInvalid},
			{"the first is bad", []datagram.Outgoing{multicast, good("a")}, 0, datagram.ErrInvalid},
			{"the last is too long", []datagram.Outgoing{good("a"), good("b"), {To: to, Data: make([]byte, config.MaxMessage+1)}}, 2, datagram.ErrMessageTooLong},
			{"the second has no destination", []datagram.Outgoing{good("a"), {}}, 1, datagram.ErrNotConnected},
		} {
			for _, block := range []bool{true, false} {
				var n int
				var err error
				if block {
					n, err = a.SendBatch(rdstest.Background(t), c.out)
				} else {
					n, err = a.TrySendBatch(c.out)
				}
				if n != c.n || !errors.Is(err, c.want) {
					t.Errorf("%s: %d, %v", c.name, n, err)
				}
				var oe *datagram.OpError
				if errors.As(err, &oe) && oe.Peer != c.out[n].To {
					t.Errorf("%s: the error is about %v", c.name, oe.Peer)
				}
				for i := range n {
					rdstest.Expect(t, b, string(c.out[i].Data))
				}
			}
		}
		rdstest.WantNothing(t, b)
	})
}

func TestTrySendBatchStopsAtTheSendBuffer(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		s := newLoopLab(t).bindOne(config.Node{SendBuffer: 2000})
		to := rdstest.Nowhere()
		out := make([]datagram.Outgoing, 20)
		for i := range out {
			out[i] = datagram.Outgoing{To: to, Data: make([]byte, 300)}
		}
		n, err := s.TrySendBatch(out)
		rdstest.WantErr(t, "batch", err, datagram.ErrWouldBlock)
		if n != 4 {
			t.Errorf("%d messages of 300 bytes in half of 2000", n)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			k, err := s.SendBatch(ctx, out)
			rdstest.WantErr(t, "blocked batch", err, context.Canceled)
			if k != 4 {
				t.Errorf("%d messages after the cancel", k)
			}
		}()
		rdstest.Eventually(t, "it waits", func() bool { return halfOf(s).Writers.N.Load() == 1 })
		rdstest.Must(t, s.CancelSentTo(to))
		rdstest.Eventually(t, "it waits again", func() bool { return halfOf(s).Writers.N.Load() == 1 && halfOf(s).Account.Bytes() == 1200 })
		cancel()
		<-done
	})
}

// One batch may go to several hosts, and its messages may be of any size; each
// destination sees its own in order.
func TestBatchesKeepOrder(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		for _, paths := range []int{1, 8} {
			l := newLoopLab(t)
			cfg := config.Node{Paths: paths}
			src := l.bindOne(cfg)
			dst := []*socket.Socket{l.bindOne(cfg), l.bindOne(cfg), src}
			const rounds, each = 30, 41
			sizes := []int{8, 64, 8, 2000, 30_000, 9, 100_000, 16 << 10, 16<<10 + 1}
			ctx := rdstest.Background(t)
			go func() {
				n := make([]uint64, len(dst))
				for round := range rounds {
					out := make([]datagram.Outgoing, each)
					for i := range out {
						d := (i/5 + round) % len(dst)
						out[i] = datagram.Outgoing{To: dst[d].LocalAddrPort(), Data: rdstest.Payload(n[d], sizes[(i+round)%len(sizes)])}
						n[d]++
					}
					if k, err := src.SendBatch(ctx, out); k != each || err != nil {
						t.Error(k, err)
						return
					}
				}
			}()
			var wg sync.WaitGroup
			for d, s := range dst {
				wg.Go(func() {
					for i := range expectedFor(d, rounds, each, len(dst)) {
						m, err := s.Recv(ctx)
						if err == nil {
							err = rdstest.Verify(m.Data, i)
							m.Release()
						}
						if err != nil {
							t.Errorf("destination %d: %v", d, err)
							return
						}
					}
				})
			}
			wg.Wait()
		}
	})
}

func expectedFor(d, rounds, each, dsts int) (n uint64) {
	for round := range rounds {
		for i := range each {
			if (i/5+round)%dsts == d {
				n++
			}
		}
	}
	return n
}
