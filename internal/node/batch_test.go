//go:build !live

package node

import (
	"context"
	"sync"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

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
