//go:build !live

package daemon

import (
	"errors"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// A port that is congested again while the one who has just cleared it has not come to
// say so is watched: the application rings when it has taken what there is.
func TestApplicationIsWatchedWhoseCongestionReturns(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		svc, path := serving(t, l.node(config.Node{}), config.Service{})
		a := bound(t, dialed(t, path), rdstest.AddrOf(rdstest.NewAddr(), 100))
		rdstest.Must(t, a.SetReadBuffer(10_000))
		app := firstSocket(lastSession(svc))
		from := l.bind(l.node(config.Node{}))
		rdstest.MustSend(t, from, a.LocalAddrPort(), make([]byte, 1000))
		sent := 1
		rdstest.Eventually(t, "congestion", func() bool {
			err := from.TrySend(a.LocalAddrPort(), make([]byte, 1000))
			if err == nil {
				sent++
			}
			return errors.Is(err, datagram.ErrCongested)
		})
		app.Watch() // of who has cleared it, and was late
		rdstest.Drop(t, a, sent)
		rdstest.Eventually(t, "a port that is not congested", func() bool { return !app.s.Congested.Load() })
	})
}
