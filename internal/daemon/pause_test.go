//go:build !live

package daemon

import (
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// The same between two addresses of one node: what the socket had is a success, and what
// waited for room in it is refused, as nobody has got it.
func TestClosedSocketRefusesWhatWaitsOnThisHost(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		n := l.node(config.Node{ReceiveBuffer: 8 << 10, ReceiveOverrun: 8 << 10})
		from, full := l.bind(n), l.bind(n)
		out := make([]datagram.Outgoing, 100)
		for i := range out {
			out[i] = datagram.Outgoing{To: full.LocalAddrPort(), Data: make([]byte, stalledSize), Notify: true, Token: uint64(i)}
		}
		if k, err := from.SendBatch(rdstest.Background(t), out); k != len(out) {
			t.Fatal(k, err)
		}
		rdstest.Eventually(t, "the pause", func() bool { return rdstest.Counter(t, n, "recv_paused") == 1 })
		rdstest.Must(t, full.Close())
		fates := map[datagram.Status]uint64{}
		for range out {
			m := rdstest.MustRecv(t, from)
			fates[m.Status]++
		}
		had, refused := rdstest.Counter(t, n, "recv_drop_dead_sock"), rdstest.Counter(t, n, "recv_refused")
		if had == 0 || refused == 0 || fates[datagram.StatusSuccess] != had || fates[datagram.StatusRefused] != refused {
			t.Errorf("fates %v, the socket had %d messages, and %d were refused", fates, had, refused)
		}
	})
}
