//go:build live

package rds

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/rdstest"
)

// Open looks at RDS_PROVIDER, then for a daemon, then makes a Node.
func TestOpenChooses(t *testing.T) {
	l := newLoopLab(t)
	_, _, path := served(t, l, Config{}, ServiceConfig{MaxSessions: 3})
	kind := func(name string) string {
		t.Helper()
		p, err := Open(name, Config{Port: rdstest.NewPort()})
		if err != nil {
			return err.Error()
		}
		defer p.Close()
		switch p.(type) {
		case *Node:
			return ProviderNode
		case *Client:
			return ProviderDaemon
		}
		return "?"
	}
	want := func(what, name, provider string) {
		t.Helper()
		if got := kind(name); got != provider {
			t.Errorf("%s: %s", what, got)
		}
	}
	t.Setenv(EnvProvider, "")
	t.Setenv("RDS_SOCKET", path)
	want("a daemon is there", "", ProviderDaemon)
	want("a node by name", ProviderNode, ProviderNode)
	t.Setenv(EnvProvider, ProviderNode)
	want("a node by the environment", "", ProviderNode)
	want("the name counts before the environment", ProviderDaemon, ProviderDaemon)
	t.Setenv(EnvProvider, "nonsense")
	_, err := Open("", Config{})
	rdstest.WantErr(t, "nonsense", err, ErrInvalid)

	t.Setenv(EnvProvider, "")
	empty := filepath.Join(t.TempDir(), "empty")
	t.Setenv("RDS_SOCKET", empty)
	noDaemon := func(what, name string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		_, err := OpenContext(ctx, name, Config{})
		rdstest.WantErr(t, what, err, ErrNoDaemon, syscall.ECONNREFUSED, context.DeadlineExceeded)
		if !strings.Contains(err.Error(), empty) {
			t.Errorf("%s: %q does not name the socket %s", what, err, empty)
		}
	}
	noDaemon("no daemon is there", "")
	noDaemon("a daemon by name", ProviderDaemon)
	rdstest.Must(t, os.WriteFile(empty, nil, 0o600))
	noDaemon("a file that is no socket", "")
	want("a node by name", ProviderNode, ProviderNode)
	t.Setenv("RDS_SOCKET", "none")
	want("no daemon on this host", "", ProviderNode)
	t.Setenv("RDS_SOCKET", path)
	for range 3 {
		dials(t, path)
	}
	_, err = Open("", Config{})
	rdstest.WantErr(t, "a daemon that is full", err, ErrTooMany) // a Node could not have its port either
}

// A host that has an rdsd: OpenContext waits for a daemon that is down, and one that
// comes up during the wait is attached to. That it has waited is known from a
// connection to something at the daemon's path that is no daemon.
func TestOpenWaitsForTheDaemon(t *testing.T) {
	dir, err := os.MkdirTemp("", "rds")
	rdstest.Must(t, err)
	defer os.RemoveAll(dir)
	t.Setenv(EnvProvider, "")
	t.Setenv("RDS_SOCKET", "")
	t.Setenv("RDS_RUNTIME_DIR", dir)
	path := filepath.Join(dir, "rds.sock")
	none, err := net.ListenUnix(ipc.Network, &net.UnixAddr{Name: path, Net: ipc.Network})
	rdstest.Must(t, err)
	opened := make(chan error, 1)
	var p Provider
	go func() {
		var err error
		p, err = OpenContext(rdstest.Background(t), "", Config{})
		opened <- err
	}()
	for range 2 { // it was refused once, and tries again
		c, err := none.AcceptUnix()
		rdstest.Must(t, err)
		_ = c.Close()
	}
	_ = none.Close() // and removes the file
	l := newLoopLab(t)
	n := l.node(Config{})
	svc, err := NewService(n, ServiceConfig{Path: path})
	rdstest.Must(t, err)
	rdstest.Must(t, <-opened)
	defer p.Close()
	defer svc.Close()
	if _, ok := p.(*Client); !ok {
		t.Fatalf("a %T", p)
	}
}
