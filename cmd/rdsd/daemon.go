package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/internal/control"
	"github.com/rds-go/rds/rds"
)

// drainMargin is what the node may need beyond its drain time to take its
// connections down.
const drainMargin = 5 * time.Second

// daemon is a running node and what tells it to stop.
type daemon struct {
	node    io.Closer
	log     *zap.Logger
	signals <-chan os.Signal
	notify  func(state string) error // tells the service manager
	drain   time.Duration            // Close must have returned by then
}

// run waits for a signal to end and drains. Its error is an exit status, said
// in the log.
func (d *daemon) run(listen, control string) error {
	d.log.Info("ready", zap.String("listen", listen), zap.String("control", control), zap.Int("pid", os.Getpid()))
	d.tell("READY=1")
	d.log.Info("stopping", zap.Stringer("signal", d.wait()))
	d.tell("STOPPING=1")

	closed := make(chan error, 1)
	go func() { closed <- d.node.Close() }()
	late := time.NewTimer(d.drain)
	defer late.Stop()
	second := make(chan os.Signal, 1)
	go func() { second <- d.wait() }()
	select {
	case err := <-closed:
		return d.stopped(err)
	case sig := <-second:
		d.log.Warn("stopped before the drain was over", zap.Stringer("signal", sig))
	case <-late.C:
		d.log.Error("stopped because the drain takes too long", zap.Duration("after", d.drain))
	}
	return cli.Exit(cli.StatusFailed)
}

// stopped judges the result of the node's Close.
func (d *daemon) stopped(err error) error {
	var dropped *rds.DroppedError
	switch {
	case err == nil:
		d.log.Info("stopped")
	case errors.As(err, &dropped):
		d.log.Warn("stopped with unacknowledged messages", zap.Int("messages", dropped.Messages), zap.Int("bytes", dropped.Bytes))
	default:
		d.log.Error("stopped", zap.Error(err))
		return cli.Exit(cli.StatusFailed)
	}
	return nil
}

// wait returns the next signal that ends the daemon.
func (d *daemon) wait() os.Signal {
	for sig := range d.signals {
		if sig != syscall.SIGHUP {
			return sig
		}
		d.log.Info("nothing to reload", zap.Stringer("signal", sig))
	}
	return nil // never: nobody closes it
}

func (d *daemon) tell(state string) {
	if err := d.notify(state); err != nil {
		d.log.Warn("service manager not told", zap.String("state", state), zap.Error(err))
	}
}

// systemd returns the sd_notify(3) of the socket that systemd names in
// NOTIFY_SOCKET; a leading @ means an abstract one, as package net has it too.
func systemd(socket string) func(state string) error {
	return func(state string) error {
		if socket == "" {
			return nil
		}
		c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write([]byte(state))
		return err
	}
}

// explain says what the failure to start is about.
func explain(err error, set settings) error {
	where := set.Listen[0]
	if len(set.Listen) > 1 {
		where = "one of " + strings.Join(set.Listen, ", ")
	}
	switch {
	case errors.Is(err, control.ErrInUse):
		return fmt.Errorf("another node has the control socket %s; choose another with --control", set.Control)
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s: port %d is in use, by another node or the kernel's RDS", where, set.Port)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%s is not an address of this host", where)
	}
	return err
}
