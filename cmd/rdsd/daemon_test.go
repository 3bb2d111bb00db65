//go:build !live

package main

import (
	"os"
	"reflect"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rds-go/rds/rds"
)

// part is a node and a service that write down what is called. Close and Drain
// take until their channel is closed, if they have one.
type part struct {
	name    string
	calls   *calls
	closing chan struct{} // Close returns when it is closed
	drain   chan struct{} // Drain does, or when Close was called
	closed  chan struct{} // closed by Close
	err     error         // result of Close
	drained error         // result of Drain
	refused error         // result of Reload
	config  rds.ServiceConfig
	present []rds.SessionInfo

	admissions []rds.Admission // arguments of SetAdmission
}

type calls struct {
	mu   sync.Mutex // guards list
	list []string
}

func (c *calls) add(s string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, s)
}

func (p *part) Report(...rds.InfoPart) (rds.Info, error) { return rds.Info{Provider: "node"}, nil }
func (p *part) Sessions() []rds.SessionInfo              { return p.present }

func (p *part) SetAdmission(a rds.Admission) error {
	p.admissions = append(p.admissions, a)
	return nil
}

func (p *part) Reload(c rds.ServiceConfig) error {
	if p.refused == nil {
		p.config = c
	}
	return p.refused
}

func (p *part) Drain() error {
	p.calls.add("drain " + p.name)
	if p.drain != nil {
		select {
		case <-p.drain:
		case <-p.closed:
		}
	}
	return p.drained
}

func (p *part) Close() error {
	p.calls.add("close " + p.name)
	if p.closed != nil {
		close(p.closed)
	}
	if p.closing != nil {
		<-p.closing
	}
	return p.err
}

// rig is a daemon made of parts.
type rig struct {
	*daemon
	node, service, watcher *part
	calls                  *calls
	signals                chan os.Signal
	logs                   *observer.ObservedLogs
	told                   []string
}

func newRig() *rig {
	c := new(calls)
	r := &rig{calls: c, signals: make(chan os.Signal, 4)}
	r.node = &part{name: "node", calls: c}
	r.service = &part{name: "service", calls: c, closed: make(chan struct{})}
	r.watcher = &part{name: "control", calls: c}
	core, logs := observer.New(zap.DebugLevel)
	r.logs = logs
	set := defaults()
	set.Listen, set.Socket, set.Control = []string{"10.0.0.1"}, "/run/a.sock", "none"
	r.daemon = &daemon{
		node: r.node, service: r.service, log: zap.New(core), level: zap.NewAtomicLevel(), signals: r.signals,
		notify: func(s string) error { r.told = append(r.told, s); return nil },
		set:    set, linger: set.Drain.Duration, grace: time.Second,
	}
	r.watch = append(r.watch, r.watcher)
	return r
}

func (r *rig) messages() (out []string) {
	for _, e := range r.logs.All() {
		out = append(out, e.Message)
	}
	return out
}

func (r *rig) wantLog(t *testing.T, want ...string) {
	t.Helper()
	if got := r.messages(); !reflect.DeepEqual(got, want) {
		t.Errorf("log %q, want %q", got, want)
	}
}

// What shows a node without a service lacks no session, what shows one with a
// service has them.
func TestInfoHasSessions(t *testing.T) {
	t.Parallel()
	r := newRig()
	r.service.present = []rds.SessionInfo{{ID: 1, PID: 42}}
	if info, err := r.info(); err != nil || !reflect.DeepEqual(info.Sessions, r.service.present) {
		t.Errorf("sessions %v, %v", info.Sessions, err)
	}
	r.daemon.service = nil
	if info, err := r.info(); err != nil || info.Sessions != nil {
		t.Errorf("sessions %v, %v", info.Sessions, err)
	}
}

// Without a service the daemon runs and stops all the same.
func TestDaemonWithoutService(t *testing.T) {
	t.Parallel()
	r := newRig()
	r.daemon.service = nil
	r.signals <- syscall.SIGTERM
	must(t, r.run())
	if want := []string{"close node", "close control"}; !reflect.DeepEqual(r.calls.list, want) {
		t.Errorf("calls %q, want %q", r.calls.list, want)
	}
}
