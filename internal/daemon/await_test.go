//go:build live

package daemon

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
)

// A daemon that has stopped reading calls does not keep a caller beyond its time, and what
// it binds later is closed again.
func TestBindContextEndsInItsTime(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	_, svc, path := served(t, l, config.Node{}, config.Service{})
	c := dialed(t, path)
	x := svc.all()[0]
	at := netip.AddrPortFrom(rdstest.NewAddr(), 100)
	release := rdstest.Hold(&x.mu) // as a session that is busy
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err := c.BindContext(ctx, at)
	release()
	rdstest.WantErr(t, "BindContext", err, context.DeadlineExceeded)
	rdstest.Eventually(t, "the port to be free", func() bool {
		s, err := c.Bind(at)
		return err == nil && s.Close() == nil
	})
}
