//go:build !live

package daemon

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
)

// An application and its daemon can be in one bubble: neither waits in the system, so that time
// passes only when there is nothing to do.
func TestSessionInProcess(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		_, svc, path := served(t, l, config.Node{}, config.Service{})
		c := dialed(t, path)
		a, b := bound(t, c, rdstest.AddrOf(rdstest.NewAddr(), 4000)), l.bindOne(config.Node{})
		began := time.Now()
		rdstest.Must(t, rdstest.Converse(t.Context(), a, b, 1000))
		if d := time.Since(began); d > 0 {
			t.Errorf("%v have passed", d)
		}
		a.SetLinger(time.Minute)
		<-time.After(time.Hour)
		rdstest.Must(t, rdstest.Converse(t.Context(), a, b, 1))
		rdstest.Must(t, c.Close())
		synctest.Wait()
		if n := len(svc.Sessions()); n != 0 {
			t.Errorf("%d sessions", n)
		}
	})
}
