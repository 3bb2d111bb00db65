//go:build !live

package main

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/rds"
)

var errDropped = fmt.Errorf("close: %w", &rds.DroppedError{Messages: 3, Bytes: 100})

// Applications are drained and cut off before the node ends, and who watches
// can watch to the end.
func TestSignalDrains(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                string
		drain, service, net error
		last                string
		want                error
	}{
		{"clean", nil, nil, nil, "stopped", nil},
		{"node drops", nil, nil, errDropped, "stopped with unacknowledged messages", nil},
		{"drain drops", errDropped, nil, nil, "stopped with unacknowledged messages", nil},
		{"node fails", nil, nil, errors.New("no"), "stopped", cli.Exit(1)},
		{"service fails, node drops", nil, errors.New("no"), errDropped, "stopped", cli.Exit(1)},
	} {
		r := newRig()
		r.service.drained, r.service.err, r.node.err = c.drain, c.service, c.net
		r.service.present = []rds.SessionInfo{{PID: 1}, {PID: 2}}
		r.signals <- syscall.SIGTERM
		if err := r.run(); err != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		r.wantLog(t, "stopping", "applications cut off", c.last)
		if n := r.logs.All()[1].ContextMap()["sessions"]; n != int64(2) {
			t.Errorf("%s: %v sessions cut off", c.name, n)
		}
		if want := []string{"drain service", "close service", "close node", "close control"}; !reflect.DeepEqual(r.calls.list, want) {
			t.Errorf("%s: calls %q, want %q", c.name, r.calls.list, want)
		}
		if want := []string{"READY=1", "STOPPING=1"}; !reflect.DeepEqual(r.told, want) {
			t.Errorf("%s: told %q, want %q", c.name, r.told, want)
		}
	}
}

// The drain of the service and that of the node tell the same messages; they
// are not counted twice.
func TestDroppedMessagesCountOnce(t *testing.T) {
	t.Parallel()
	r := newRig()
	r.service.drained, r.node.err = errDropped, errDropped
	r.signals <- syscall.SIGTERM
	must(t, r.run())
	last := r.logs.All()[r.logs.Len()-1]
	if m := last.ContextMap(); m["messages"] != int64(3) || m["bytes"] != int64(100) {
		t.Errorf("left: %v", m)
	}
}

func TestSecondSignalEndsTheDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.node.closing = make(chan struct{})
		r.signals <- syscall.SIGTERM
		status := make(chan error, 1)
		go func() { status <- r.run() }()
		synctest.Wait() // the node is closing
		r.signals <- syscall.SIGHUP
		synctest.Wait()
		select {
		case err := <-status:
			t.Fatalf("SIGHUP ended the drain: %v", err)
		default:
		}
		r.signals <- os.Interrupt
		if err := <-status; err != cli.Exit(1) {
			t.Errorf("error %v, want status 1", err)
		}
		r.wantLog(t, "stopping", "not reloaded: stopping", "stopped before the drain was over")
		close(r.node.closing)
	})
}

// A drain time that was made shorter while the daemon ran bounds a service
// that does not know of it, and there the time is the daemon's only means.
func TestServiceDrainIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.service.drain = make(chan struct{}) // never done by itself
		r.set.Drain.Duration = 100 * time.Millisecond
		r.signals <- syscall.SIGTERM
		began := time.Now()
		if err := r.run(); err != nil {
			t.Errorf("error %v", err)
		}
		if took := time.Since(began); took != 100*time.Millisecond+r.grace {
			t.Errorf("took %v", took)
		}
		r.wantLog(t, "stopping", "drain cut short", "stopped")
	})
}

func TestStopIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.node.closing = make(chan struct{}) // never done
		r.signals <- syscall.SIGTERM
		began := time.Now()
		if err := r.run(); err != cli.Exit(1) {
			t.Errorf("error %v, want status 1", err)
		}
		if took := time.Since(began); took != 2*(r.set.Drain.Duration+r.grace) {
			t.Errorf("took %v", took)
		}
		r.wantLog(t, "stopping", "stopped because the drain takes too long")
		close(r.node.closing)
	})
}
