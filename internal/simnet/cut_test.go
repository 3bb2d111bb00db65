package simnet

import (
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/transporttest"
)

// counted is a handler that counts the bytes of messages, all empty and numbered from 0 on,
// and notes what was acknowledged at the end.
type counted struct {
	transporttest.Simple
	received uint64
	gaps     int // messages with another number than the next one
	acked    uint64
	closed   chan struct{} // closed at the end
}

func (c *counted) Message(h *wire.Header, _ []byte, _ *buf.Buf) {
	if h.Sequence*wire.HeaderSize != c.received {
		c.gaps++
	}
	c.received += wire.HeaderSize
}
func (c *counted) Closed(_ error, acked uint64) { c.acked = acked; close(c.closed) }

// What is written at the moment of a cut was acknowledged without having arrived, or arrived
// behind bytes that the cut threw away, if the cut came between two steps of the write, as no
// TCP does it.
func TestCutAcknowledgesNothingThatIsLost(t *testing.T) {
	t.Parallel()
	for range 500 {
		synctest.Test(t, func(t *testing.T) {
			n := NewNetwork(1, Faults{Latency: 10 * time.Microsecond, Late: 50 * time.Millisecond})
			from, to := n.Transport(), n.Transport()
			near, far := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
			sent, got := counted{closed: make(chan struct{})}, counted{closed: make(chan struct{})}
			if err := to.Listen(far, func(l transport.Link) { _ = l.Start(&got) }); err != nil {
				t.Fatal(err)
			}
			l, err := from.Dial(t.Context(), near, far, 0)
			if err == nil {
				err = l.Start(&sent)
			}
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			wg.Go(func() {
				h := wire.Header{Sport: 1, Dport: 2}
				for err := error(nil); err == nil; {
					var t transport.Taken
					t, err = l.Send([]transport.Frame{{Head: h.AppendTo(nil)}})
					h.Sequence += uint64(t.Frames)
				}
			})
			wg.Go(l.(*port).cut)
			wg.Wait()
			<-sent.closed
			<-got.closed
			if sent.acked > got.received {
				t.Errorf("%d bytes were acknowledged, %d have come", sent.acked, got.received)
			}
			if got.gaps > 0 {
				t.Errorf("%d gaps in what has come", got.gaps)
			}
			_ = from.Close()
			_ = to.Close()
		})
		if t.Failed() {
			return
		}
	}
}
