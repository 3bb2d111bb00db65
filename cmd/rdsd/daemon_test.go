package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/rds"
)

// closer is a node whose Close takes until release is closed.
type closer struct {
	entered, release chan struct{}
	err              error
}

func newCloser(err error) *closer {
	return &closer{make(chan struct{}), make(chan struct{}), err}
}

func (c *closer) Close() error {
	close(c.entered)
	<-c.release
	return c.err
}

func testDaemon(c *closer) (*daemon, chan os.Signal, *observer.ObservedLogs, *[]string) {
	core, logs := observer.New(zap.DebugLevel)
	signals := make(chan os.Signal, 4)
	var told []string
	return &daemon{
		node: c, log: zap.New(core), signals: signals, drain: time.Minute,
		notify: func(s string) error { told = append(told, s); return nil },
	}, signals, logs, &told
}

func messages(logs *observer.ObservedLogs) (out []string) {
	for _, e := range logs.All() {
		out = append(out, e.Message)
	}
	return out
}

func TestSignalDrains(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		err  error
		last string
		want error
	}{
		{"clean", nil, "stopped", nil},
		{"dropped", fmt.Errorf("close: %w", &rds.DroppedError{Messages: 3, Bytes: 100}), "stopped with unacknowledged messages", nil},
		{"failed", errors.New("no"), "stopped", cli.Exit(1)},
	} {
		node := newCloser(c.err)
		close(node.release)
		d, signals, logs, told := testDaemon(node)
		signals <- syscall.SIGHUP
		signals <- syscall.SIGTERM
		if err := d.run("10.0.0.1", ""); err != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if got, want := messages(logs), []string{"ready", "nothing to reload", "stopping", c.last}; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: log %q, want %q", c.name, got, want)
		}
		if want := []string{"READY=1", "STOPPING=1"}; !reflect.DeepEqual(*told, want) {
			t.Errorf("%s: told %q, want %q", c.name, *told, want)
		}
	}
}

func TestSecondSignalEndsTheDrain(t *testing.T) {
	t.Parallel()
	node := newCloser(nil)
	d, signals, logs, _ := testDaemon(node)
	defer close(node.release)
	signals <- syscall.SIGTERM
	go func() { <-node.entered; signals <- syscall.SIGHUP; signals <- syscall.SIGINT }()
	if err := d.run("", ""); err != cli.Exit(1) {
		t.Errorf("error %v, want status 1", err)
	}
	if got := messages(logs); got[len(got)-1] != "stopped before the drain was over" {
		t.Errorf("log %q", got)
	}
}

func TestDrainIsBounded(t *testing.T) {
	t.Parallel()
	node := newCloser(nil)
	d, signals, logs, _ := testDaemon(node)
	defer close(node.release)
	d.drain = time.Millisecond
	signals <- syscall.SIGTERM
	if err := d.run("", ""); err != cli.Exit(1) {
		t.Errorf("error %v, want status 1", err)
	}
	if got := messages(logs); got[len(got)-1] != "stopped because the drain takes too long" {
		t.Errorf("log %q", got)
	}
}

func TestSystemd(t *testing.T) {
	t.Parallel()
	if err := systemd("")("READY=1"); err != nil {
		t.Errorf("without a service manager: %v", err)
	}
	dir, err := os.MkdirTemp("", "sd")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := systemd(path)("READY=1"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 64)
	if n, err := l.Read(b); err != nil || string(b[:n]) != "READY=1" {
		t.Errorf("heard %q, %v", b[:n], err)
	}
	if err := systemd(filepath.Join(dir, "nobody"))("READY=1"); err == nil {
		t.Error("no error without a listener")
	}
}
