//go:build !live

package iwarp

import (
	"testing"

	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// A program that ends the connection when it has a message, in the middle of the burst
// that has brought it, has acknowledged the message: its CREDIT leaves before the end.
func TestSinkEndsWithTheCredit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, x, d := openSink(t, Config{}, true, false)
		e.qp.SinkReady()
		x.sync()
		d.mu.Lock()
		d.burst = func() {
			if len(d.taken()) > 0 {
				_ = e.qp.Disconnect()
			}
		}
		d.mu.Unlock()
		x.raw.send(x.message(sinkNum, 0, true, []byte("last")))
		for {
			if _, _, err := x.take(); err != nil {
				break
			}
		}
		delivered := uint32(0)
		for _, c := range has[xctl.Credit](x) {
			delivered = max(delivered, c.Delivered)
		}
		if delivered != 1 {
			t.Errorf("the connection has ended, and %d messages are acknowledged", delivered)
		}
	})
}
