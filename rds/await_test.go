package rds

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/ipc"
)

// A host that has an rdsd: OpenContext waits for a daemon that is down, and one that
// comes up during the wait is attached to. That it has waited is known from a
// connection to something at the daemon's path that is no daemon.
func TestOpenWaitsForTheDaemon(t *testing.T) {
	dir, err := os.MkdirTemp("", "rds")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	t.Setenv(EnvProvider, "")
	t.Setenv(ipc.EnvPath, "")
	t.Setenv(ipc.EnvDir, dir)
	path := filepath.Join(dir, "rds.sock")
	none, err := net.ListenUnix(ipc.Network, &net.UnixAddr{Name: path, Net: ipc.Network})
	if err != nil {
		t.Fatal(err)
	}
	opened := make(chan error, 1)
	var p Provider
	go func() {
		var err error
		p, err = OpenContext(background(t), "", Config{})
		opened <- err
	}()
	for range 2 { // it was refused once, and tries again
		c, err := none.AcceptUnix()
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
	}
	_ = none.Close() // and removes the file
	l := newLoopLab(t)
	n := l.node(Config{})
	svc, err := NewService(n, ServiceConfig{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c, ok := p.(*Client)
	if !ok {
		t.Fatalf("a %T", p)
	}

	// It attaches again by itself. BindContext waits for that.
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

// A call that waits behind another one for the process's provider ends in its own time.
func TestListenEndsInItsTime(t *testing.T) {
	shared.token <- struct{}{} // as a call that waits for a daemon does
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := ListenContext(ctx, "127.0.0.1:4000")
	<-shared.token
	wantErr(t, "ListenContext", err, context.Canceled)
}

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
