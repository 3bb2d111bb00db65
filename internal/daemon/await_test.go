package daemon

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/client"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// A daemon that has stopped reading calls does not keep a caller beyond its time, and what
// it binds later is closed again.
func TestBindContextEndsInItsTime(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	_, svc, path := served(t, l, config.Node{}, config.Service{})
	c := dialed(t, path)
	x := svc.All()[0]
	at := netip.AddrPortFrom(rdstest.NewAddr(), 100)
	release := rdstest.Hold(&x.Mu) // as a session that is busy
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

// An application attaches again by itself. BindContext waits for that.
func TestBindContextWaitsForTheDaemon(t *testing.T) {
	t.Parallel()
	n, svc, path := served(t, newLoopLab(t), config.Node{}, config.Service{})
	c, err := client.New(config.Client{Path: path, Reconnect: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := svc.Close(); err != nil {
		t.Fatal(err)
	}
	at := netip.AddrPortFrom(rdstest.NewAddr(), 100)
	rdstest.Eventually(t, "the loss", func() bool { _, err := c.Current(); return err != nil })
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
	rdstest.Eventually(t, "it waits", func() bool { return c.Attached.N.Load() == 1 })
	if svc, err = New(n, config.Service{Path: path}); err != nil {
		t.Fatal(err)
	}
	defer svc.Close()
	if err := <-bound; err != nil {
		t.Error(err)
	}
}
