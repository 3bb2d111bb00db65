package main

import (
	"errors"
	"net"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/rds"
)

// stop ends the parts of the daemon, unless it takes too long or a second
// signal comes.
func (d *daemon) stop() error {
	limit := d.limit()
	stopped := make(chan error, 1)
	go func() {
		if d.leave() {
			stopped <- nil
			return
		}
		stopped <- d.end()
	}()
	late := time.NewTimer(limit)
	defer late.Stop()
	for {
		select {
		case err := <-stopped:
			return err
		case sig := <-d.signals:
			if sig == syscall.SIGHUP || sig == upgradeSignal {
				d.log.Info("not reloaded: stopping", zap.Stringer("signal", sig))
				continue
			}
			d.log.Warn("stopped before the drain was over", zap.Stringer("signal", sig))
		case <-late.C:
			d.log.Error("stopped because the drain takes too long", zap.Duration("after", limit))
		}
		return cli.Exit(cli.StatusFailed)
	}
}

// limit is what stopping may take: a drain of the service and one of the node.
func (d *daemon) limit() time.Duration { return 2 * (d.set.Drain.Duration + d.grace) }

// end drains and closes service and node, then what shows them.
func (d *daemon) end() error {
	var l leftover
	if d.service != nil {
		d.endService(&l)
	}
	l.add(d.node.Close())
	for _, w := range d.watch {
		if err := w.Close(); err != nil {
			d.log.Warn("not closed", zap.Error(err))
		}
	}
	switch {
	case l.failed != nil:
		d.log.Error("stopped", zap.Error(l.failed))
		return cli.Exit(cli.StatusFailed)
	case l.dropped.Messages > 0:
		d.log.Warn("stopped with unacknowledged messages", zap.Int("messages", l.dropped.Messages), zap.Int("bytes", l.dropped.Bytes))
	default:
		d.log.Info("stopped")
	}
	return nil
}

// endService drains the service for the drain time and closes it. The service
// bounds its drain by the time the node was started with; the timer is for a
// shorter one.
func (d *daemon) endService(l *leftover) {
	drained := make(chan error, 1)
	go func() { drained <- d.service.Drain() }()
	late := time.NewTimer(d.set.Drain.Duration + d.grace)
	defer late.Stop()
	var left error
	select {
	case left = <-drained:
		drained = nil
	case <-late.C:
		d.log.Warn("drain cut short", zap.Duration("drain", d.set.Drain.Duration))
	}
	if n := len(d.service.Sessions()); n > 0 {
		d.log.Info("applications cut off", zap.Int("sessions", n))
	}
	l.add(d.service.Close())
	if drained != nil {
		left = <-drained // Close ends a drain
	}
	l.add(left)
}

// leftover is what the parts could not finish.
type leftover struct {
	dropped rds.DroppedError // the most that one of them told: they may mean the same messages
	failed  error
}

func (l *leftover) add(err error) {
	var dropped *rds.DroppedError
	switch {
	case err == nil, errors.Is(err, net.ErrClosed):
	case errors.As(err, &dropped):
		if dropped.Messages > l.dropped.Messages {
			l.dropped = *dropped
		}
	default:
		l.failed = errors.Join(l.failed, err)
	}
}
