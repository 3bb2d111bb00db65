//go:build live

package client

import (
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
)

// What the daemon has put on the ring is received although the daemon has ended before
// anybody looked.
func TestRingOutlivesTheDaemon(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{true, false} {
		l := newLoopLab(t)
		d := newRestarted(t, l)
		c := d.client(again)
		s, far := bound(t, c, rdstest.AddrOf(rdstest.NewAddr(), 100)), l.bindOne(config.Node{})
		const messages = 100
		release := rdstest.Hold(&clientHalfOf(s).Queue.Mu) // nobody can receive
		for i := range messages {
			rdstest.MustSend(t, far, s.LocalAddrPort(), rdstest.Payload(uint64(i), 8+i*100))
		}
		rdstest.Eventually(t, "all to be on the ring", func() bool {
			for _, k := range rdstest.Report(t, d.node).Sockets {
				if k.Bound == s.LocalAddrPort() {
					return k.RecvMessages == messages && d.svc.Sessions()[0].Waiting == 0
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
		rdstest.ExpectDespite(t, s, messages, again)
	}
}
