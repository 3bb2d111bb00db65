//go:build live

package daemon

import (
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
)

// Messages go to the application's ring without being queued in the daemon. Those that its
// memory has no room for are queued, and those that come behind them, and reach it in order
// when it has made room.
func TestMessagesGoStraightToTheRing(t *testing.T) {
	t.Parallel()
	for _, wire := range []config.Wire{config.WireTCP, config.WireXRC} {
		t.Run(string(wire), func(t *testing.T) {
			l := newLab(t)
			from := l.bind(l.node(config.Node{Wire: wire, SendBuffer: 64 << 20}))
			n, svc, path := served(t, l, config.Node{Wire: wire, ReceiveBuffer: 64 << 20}, config.Service{})
			to := bound(t, dialed(t, path), rdstest.AddrOf(rdstest.NewAddr(), 100))
			send := func(to *socket.Socket, i uint64) {
				rdstest.MustSend(t, from, to.LocalAddrPort(), rdstest.Payload(i, 8+700*int(i%30)))
			}
			const messages = 500
			for i := range uint64(messages) {
				send(to, i)
				if i >= 50 {
					rdstest.ExpectNumber(t, to, i-50)
				}
			}
			rdstest.WantCounter(t, n, "recv_waited", 0)
			first := svc.all()[0]
			slow := bound(t, dialed(t, path), rdstest.AddrOf(to.LocalAddrPort().Addr(), 101))
			for _, x := range svc.all() {
				if x != first {
					shrink(x, 4<<20)
				}
			}
			for i := range uint64(2 * messages) {
				send(slow, i)
			}
			rdstest.Eventually(t, "messages to wait", func() bool { return rdstest.Counter(t, n, "recv_waited") > 0 })
			rdstest.ExpectNumbers(t, slow, 2*messages)
		})
	}
}
