//go:build !live

package xrc

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/transporttest"
)

// deaf is a handler that waits for nothing but the end.
type deaf struct {
	transporttest.Simple
	links atomic.Int64 // that have not ended
}

func (*deaf) Message(_ *wire.Header, _ []byte, owned *buf.Buf) {
	if owned != nil {
		owned.Release()
	}
}
func (d *deaf) Closed(error, uint64) { d.links.Add(-1) }

// The peer aborts while we write, and perhaps drain, and its reset comes when some write
// begins: the end is told in any case. Once it was not when the queue pair failed during the
// write that met the reset.
func TestEndIsToldWhileWriting(t *testing.T) {
	bubbleOn(t, lan, func(t *testing.T) {
		a, b := newTransport(t, Options{}), newTransport(t, Options{})
		from, to := newAddr(), newAddr()
		abort := func(l transport.Link) {
			time.AfterFunc(time.Duration(rand.IntN(6))*lan.Latency, func() { l.Close(transport.Abort) })
		}
		must(t, b.Listen(to, abort))
		var (
			d       deaf
			writers sync.WaitGroup
		)
		for range 300 {
			l, err := a.Dial(within(t), from, to, 0)
			if err != nil {
				continue // it was early
			}
			d.links.Add(1)
			must(t, l.Start(&d))
			writers.Go(func() {
				tick := time.NewTicker(lan.Latency)
				defer tick.Stop()
				for range 5 {
					if _, err := l.Send([]transport.Frame{(&transporttest.Sender{}).Next(8192)}); err != nil {
						break
					}
					<-tick.C
				}
				if rand.IntN(2) == 0 {
					l.Close(transport.Drain)
				}
			})
		}
		writers.Wait()
		eventually(t, "all links have ended", func() bool { return d.links.Load() == 0 })
	})
}
