//go:build live

package client

import (
	"fmt"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
)

// What the daemon has put on the ring is received although the daemon has ended before
// anybody looked; so is what the ring, or the receive arena, has no room for.
func TestRingOutlivesTheDaemon(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ messages, size, step int }{{100, 8, 100}, {6000, 64, 0}, {60, 60_000, 0}} {
		for _, again := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d of %d, again %v", c.messages, c.size, again), func(t *testing.T) {
				t.Parallel()
				ringOutlives(t, again, c.messages, func(i int) []byte { return rdstest.Payload(uint64(i), c.size+i*c.step) })
			})
		}
	}
}

func ringOutlives(t *testing.T, again bool, messages int, payload func(i int) []byte) {
	l := newLoopLab(t)
	n, svc, path := served(t, l, config.Node{}, config.Service{ReceiveArena: 1 << 20})
	d := &restarted{t, n, svc, path}
	c := d.client(again)
	s, far := bound(t, c, rdstest.AddrOf(rdstest.NewAddr(), 100)), l.bindOne(config.Node{})
	release := rdstest.Hold(&clientHalfOf(s).Queue.Mu) // nobody can receive
	for i := range messages {
		rdstest.MustSend(t, far, s.LocalAddrPort(), payload(i))
	}
	const entries = 4096 // of the ring
	rdstest.Eventually(t, "all to be in the application's memory", func() bool {
		for _, k := range rdstest.Report(t, d.node).Sockets {
			if k.Bound == s.LocalAddrPort() {
				return k.RecvMessages == messages && d.svc.Sessions()[0].Waiting == max(0, messages-entries)
			}
		}
		return false
	})
	att := c.att
	d.stop()
	<-att.gone
	release()
	// A call that waits when the socket hears of the end fails for that.
	rdstest.Eventually(t, "the socket to hear of the end", func() bool { return clientHalfOf(s).Begun() == 1 })
	rdstest.ExpectDespite(t, s, uint64(messages), again)
}
