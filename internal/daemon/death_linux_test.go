//go:build !live

package daemon

import (
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
)

// A session that ends while one of its sockets is being closed counts once, and until the
// socket has ended.
func TestSessionThatEndsBetweenTwoStepsOfAClose(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		_, svc, path := served(t, l, config.Node{}, config.Service{})
		bound(t, dialed(t, path), rdstest.AddrOf(rdstest.NewAddr(), 100))
		live := func() int {
			svc.mu.Lock()
			defer svc.mu.Unlock()
			return svc.live
		}
		x := lastSession(svc)
		a, err := x.take(firstSocket(x).id)
		rdstest.Must(t, err)
		x.end(errViolation)
		if n := live(); n != 1 {
			t.Errorf("%d sessions while the socket has not ended", n)
		}
		a.leave()
		if _, err := a.finish(); err != nil {
			t.Error(err)
		}
		if n := live(); n != 0 {
			t.Errorf("%d sessions", n)
		}
	})
}
