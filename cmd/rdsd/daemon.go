package main

import (
	"context"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"

	"github.com/rds-go/rds/rds"
	"github.com/rds-go/rds/transport"
)

// node and service are what the daemon needs of rds.Node and rds.Service.
type node interface {
	Report(parts ...rds.InfoPart) (rds.Info, error)
	SetAdmission(rds.Admission) error
	Close() error
}

type service interface {
	Reload(rds.ServiceConfig) error
	Sessions() []rds.SessionInfo
	Drain() error
	Close() error
}

// daemon is what runs and what tells it to reload and to stop. Its fields
// belong to the goroutine of run, but for node and service.
type daemon struct {
	node    node
	service service // nil if applications cannot attach
	serving rds.ServiceConfig
	watch   []io.Closer // control socket, metrics and takeover socket, closed last
	parts   []ownPart   // the sockets of watch that a successor takes over
	log     *zap.Logger
	level   zap.AtomicLevel
	dropped func() uint64 // lines of the log that standard error has not taken
	signals <-chan os.Signal
	came    <-chan successor         // successors that ask to take over
	program string                   // file of the program, for a successor
	at      place                    // what a successor must have as this daemon has it
	lock    *servingLock             // lock of the sockets; nil: there is no socket that a successor could ask at
	before  *predecessor             // daemon whose place this one takes; nil: none
	heir    *rds.Heir                // what it has left
	notify  func(state string) error // tells the service manager

	admission rds.Admission // the allow-list in effect
	filter    *filter       // the filter in the kernel; nil: none is looked for

	set    settings                 // the settings in effect
	load   func() (settings, error) // reads the settings again; nil without a file
	linger time.Duration            // the drain time that the node was started with
	grace  time.Duration            // time that the service and the node may each take beyond linger
}

// grace is what the service and the node may each need beyond the drain time
// to take down what they have.
const grace = 2500 * time.Millisecond

// run tells that the daemon is ready, reloads when told to, and stops. Its
// error is an exit status, said in the log.
func (d *daemon) run() error {
	d.tell(sd.SdNotifyReady)
	for {
		var sig os.Signal
		select {
		case sig = <-d.signals:
		case s := <-d.came:
			var taken bool
			if taken, sig = d.takenOver(s); taken {
				return nil
			}
		}
		switch sig {
		case nil:
		case syscall.SIGHUP:
			d.reload()
		case upgradeSignal:
			d.spawn()
		default:
			d.log.Info("stopping", zap.Stringer("signal", sig))
			d.tell(sd.SdNotifyStopping)
			return d.stop()
		}
	}
}

// takenOver has a successor take over, and tells whether it has. If not, sig is a signal
// that came meanwhile, which ends the attempt.
func (d *daemon) takenOver(s successor) (taken bool, sig os.Signal) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan bool, 1)
	go func() { done <- d.handOver(ctx, s) }()
	for {
		select {
		case taken := <-done:
			return taken, sig
		case next := <-d.signals:
			if next == upgradeSignal || sig != nil && next == syscall.SIGHUP {
				continue
			}
			if sig = next; sig != syscall.SIGHUP {
				cancel()
			}
		}
	}
}

func (d *daemon) tell(state string) {
	if err := d.notify(state); err != nil {
		d.log.Warn("service manager not told", zap.String("state", state), zap.Error(err))
	}
}

// info is a snapshot of the node and what is attached to it.
func (d *daemon) info() (rds.Info, error) { return d.infoWith() }

// infoWith is info with the parts named.
func (d *daemon) infoWith(parts ...rds.InfoPart) (rds.Info, error) {
	info, err := d.node.Report(parts...)
	if d.dropped != nil { // The list is shared: Clip makes append copy it.
		info.Counters = append(slices.Clip(info.Counters), transport.Counter{Name: "log_dropped", Value: d.dropped()})
	}
	if err == nil && d.filter != nil {
		a := rds.AdmissionInfo{}
		if info.Admission != nil {
			a = *info.Admission // which is shared
		}
		a.Kernel = d.filter.info()
		info.Admission = &a
	}
	if err == nil && info.Sessions == nil && d.service != nil {
		info.Sessions = d.service.Sessions()
	}
	return info, err
}
