//go:build !live

package client

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/daemon"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// An application attaches again by itself. BindContext waits for that.
func TestBindContextWaitsForTheDaemon(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		n, svc, path := served(t, l, config.Node{}, config.Service{})
		c, err := New(config.Client{Path: path, Reconnect: true})
		rdstest.Must(t, err)
		defer c.Close()
		rdstest.Must(t, svc.Close())
		at := netip.AddrPortFrom(rdstest.NewAddr(), 100)
		rdstest.Eventually(t, "the loss", func() bool { _, err := c.current(); return err != nil })
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		_, err = c.BindContext(ctx, at)
		rdstest.WantErr(t, "BindContext without a daemon", err, datagram.ErrDaemonLost, context.DeadlineExceeded)
		if !strings.Contains(err.Error(), path) {
			t.Errorf("%q does not name the socket %s", err, path)
		}
		bound := make(chan error, 1)
		go func() {
			s, err := c.BindContext(rdstest.Background(t), at)
			if err == nil {
				err = s.Close()
			}
			bound <- err
		}()
		rdstest.Eventually(t, "it waits", func() bool { return c.attached.N.Load() == 1 })
		if svc, err = daemon.New(n, config.Service{Path: path}); err != nil {
			t.Fatal(err)
		}
		defer svc.Close()
		rdstest.NoError(t, <-bound)
	})
}
