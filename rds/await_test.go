package rds

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// A daemon that has stopped reading calls does not keep a caller beyond its time, and what
// it binds later is closed again.
func TestBindContextEndsInItsTime(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	_, svc, path := served(t, l, Config{}, ServiceConfig{})
	c := dialed(t, path)
	x := svc.all()[0]
	at := netip.AddrPortFrom(newAddr(), 100)
	x.mu.Lock() // as a session that is busy
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err := c.BindContext(ctx, at)
	x.mu.Unlock()
	wantErr(t, "BindContext", err, context.DeadlineExceeded)
	eventually(t, "the port to be free", func() bool {
		s, err := c.Bind(at)
		return err == nil && s.Close() == nil
	})
}

// An application attaches again by itself. BindContext waits for that.
func TestBindContextWaitsForTheDaemon(t *testing.T) {
	t.Parallel()
	n, svc, path := served(t, newLoopLab(t), Config{}, ServiceConfig{})
	c, err := NewClient(ClientConfig{Path: path, Reconnect: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := svc.Close(); err != nil {
		t.Fatal(err)
	}
	at := netip.AddrPortFrom(newAddr(), 100)
	eventually(t, "the loss", func() bool { _, err := c.current(); return err != nil })
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err = c.BindContext(ctx, at)
	wantErr(t, "BindContext without a daemon", err, ErrDaemonLost, context.DeadlineExceeded)
	if !strings.Contains(err.Error(), path) {
		t.Errorf("%q does not name the socket %s", err, path)
	}
	bound := make(chan error, 1)
	go func() {
		s, err := c.BindContext(background(t), at)
		if err == nil {
			err = s.Close()
		}
		bound <- err
	}()
	eventually(t, "it waits", func() bool { return c.attached.n.Load() == 1 })
	if svc, err = NewService(n, ServiceConfig{Path: path}); err != nil {
		t.Fatal(err)
	}
	defer svc.Close()
	if err := <-bound; err != nil {
		t.Error(err)
	}
}
