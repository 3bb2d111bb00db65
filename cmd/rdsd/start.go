package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/internal/control"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/rds"
)

// start runs the daemon from its settings to the end. reading is what was wrong when the
// settings were read. load reads them again; it is nil without a file.
func start(set settings, reading error, load func() (settings, error), takeover bool) error {
	p, err := set.planAfter(reading)
	if err != nil {
		return cli.WithStatus(statusConfig, err)
	}
	signal.Ignore(syscall.SIGPIPE) // Without this a write to a standard error that is closed ends the process.
	log, level, sink, err := set.Log.open(os.Stderr)
	defer sink.Close(flushTime)
	if err != nil {
		return cli.WithStatus(statusConfig, err)
	}
	zap.RedirectStdLog(log) // libraries write to the standard logger
	program, err := exec.LookPath(os.Args[0])
	if err == nil {
		program, err = filepath.Abs(program) // the working directory may change
	}
	if err != nil {
		program = os.Args[0]
	}
	in, left, err := inherit()
	if err == nil {
		err = in.into(&p)
	}
	if err != nil {
		in.close()
		return cli.WithStatus(statusConfig, err)
	}
	p.service.ReportGroups = reportGroups(p.control) // the control socket may be an inherited one, with another group
	if in.attach != nil {
		p.node.State = set.statePath(in.attach.Addr().String())
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, upgradeSignal)
	d := &daemon{
		log: log, level: level, dropped: sink.Dropped, signals: signals, notify: notify,
		set: set, load: load, linger: set.Drain.Duration, grace: grace, program: program,
		filter: newFilter(p.node.Ports(), set.Admission, log),
	}
	if err := set.handOn(&p, log); err != nil {
		in.close()
		return err
	}
	d.at = placeOf(&p, &set, &in)
	asks := takeoverPath(d.at.Socket, d.at.Control)
	if takeover {
		if d.before, err = takeFrom(asks, d.at); err != nil {
			in.close()
			return err
		}
	}
	if err := d.openLock(asks, takeover); err != nil {
		d.before.refuse(err)
		return err
	}
	defer d.lock.close()
	if !takeover {
		if d.before = d.fromStore(left); d.before == nil && d.lock != nil {
			if got, err := d.lock.take(0); !got {
				in.close()
				return cmp.Or(err, d.taken())
			}
		}
	}
	if err := d.open(p); err != nil {
		if d.before != nil { // the predecessor goes on with all there is
			d.before.refuse(err)
			return err
		}
		in.close() // closes what no part has closed
		return err
	}
	if d.lock == nil {
		asks = ""
	}
	if err := d.begin(p, asks); err != nil {
		return err
	}
	d.log.Info("ready", zap.String("listen", strings.Join(set.Listen, ",")), zap.String("socket", where(p.service.Path, in.attach)),
		zap.String("control", where(p.control.Path, in.control)), zap.String("metrics", set.Metrics), zap.Int("pid", os.Getpid()))
	return d.run()
}

// taken says that another daemon has the lock of the sockets.
func (d *daemon) taken() error {
	if d.at.Socket != none {
		return d.set.explainSocket(syscall.EADDRINUSE)
	}
	return d.set.explainControl(control.ErrInUse)
}

// openLock opens the lock of the daemon's sockets.
func (d *daemon) openLock(asks string, takeover bool) (err error) {
	if asks == "" {
		if takeover {
			return cli.Usage(errors.New("--takeover: neither a socket for applications nor a control socket: nobody to ask"))
		}
		return nil
	}
	if d.at.Socket != none && d.at.Socket != "" { // the directory of the socket, in which the file is
		if err := ipc.MakeDir(d.at.Socket); err != nil {
			return fmt.Errorf("socket: %w", err)
		}
	}
	if d.lock, err = openLock(lockPath(asks)); err != nil && !takeover {
		d.log.Warn("no successor can take over", zap.Error(err))
		return nil
	}
	return err
}

// where is a socket for the log: its path, or that of an inherited one.
func where(path string, l *net.UnixListener) string {
	if l != nil {
		return l.Addr().String()
	}
	return path
}

// open starts the parts in the order in which they need each other. After an
// error none is left.
func (d *daemon) open(p plan) (err error) {
	var opened []io.Closer
	defer func() {
		for i := len(opened) - 1; err != nil && d.before == nil && i >= 0; i-- {
			_ = opened[i].Close() // the first error is the one to report
		}
	}()
	// First of all: as soon as the directory exists no application takes the
	// addresses of the daemon for itself, even if the daemon cannot start now.
	if p.service.Path != "" {
		if err := ipc.MakeDir(p.service.Path); err != nil {
			return fmt.Errorf("socket: %w", err)
		}
	}
	p.node.Logger, p.service.Logger, d.admission = d.log, d.log, p.node.Admission
	if err := d.filter.usable(&d.set.Admission); err != nil {
		return cli.WithStatus(statusConfig, err)
	}
	if d.before != nil {
		return d.inherit(p)
	}
	n, err := rds.NewNode(p.node)
	if err != nil {
		return d.set.explainNode(err)
	}
	d.node, opened = n, append(opened, n)
	// Not before the node has its addresses: another daemon may have them, and this filter.
	if err = d.filter.set(&d.set.Admission, d.admission.Allow); err != nil {
		return cli.WithStatus(statusConfig, err)
	}

	if p.service.Path != "" || p.service.Listener != nil {
		s, err := rds.NewService(n, p.service)
		if err != nil {
			return d.set.explainSocket(err)
		}
		d.service, d.serving, opened = s, p.service, append(opened, s)
	}
	if err = d.show(p.control, nil); err != nil {
		for _, w := range d.watch {
			_ = w.Close()
		}
		return err
	}
	return nil
}

// show opens the control socket and the metrics, these on a listener that was passed, if
// there is one.
func (d *daemon) show(c control.Config, passed *net.TCPListener) error {
	if c.Path != "" || c.Listener != nil {
		c.With = func(parts []string) (any, error) { return d.infoWith(rds.InfoParts(parts)...) }
		s, err := c.Serve(func() (any, error) { return d.info() })
		if err != nil {
			return d.set.explainControl(err)
		}
		d.watch = append(d.watch, s)
		if l, ok := s.(listening); ok {
			d.parts = append(d.parts, ownPart{l, partControl})
		}
	}
	if d.set.Metrics == "" {
		return nil
	}
	var (
		m    *metricsServer
		err  error
		more []prometheus.Collector
	)
	if t := newTelemetry(d.set.Telemetry, d.set.Admission.Pins, d.log); t != nil {
		more = append(more, t)
	}
	if passed != nil {
		m, err = serveMetricsOn(passed, d.info, d.log, more...)
	} else {
		m, err = serveMetrics(d.set.Metrics, d.info, d.log, more...)
	}
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	d.watch, d.parts = append(d.watch, m), append(d.parts, ownPart{m, partMetrics})
	return nil
}

// explainNode says what the failure to start the node is about.
func (s *settings) explainNode(err error) error {
	e := &rds.OpError{Err: err}
	at := strings.Join(s.Listen, ", ")
	if errors.As(err, &e) && e.Local.IsValid() {
		at = e.Local.Addr().String()
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s: port %d is in use, by another node or the kernel's RDS", at, s.Port)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		if strings.Contains(strings.Join(s.Listen, ","), "/") {
			return fmt.Errorf("listen: %s: %w; a route makes a prefix local: ip route add local PREFIX dev lo, and for IPv6 also sysctl net.ipv6.ip_nonlocal_bind=1", at, e.Err)
		}
		return fmt.Errorf("listen: %s: %w", at, e.Err)
	}
	return err
}

func (s *settings) explainSocket(err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("another daemon has the socket %s; choose another with --socket", s.Socket)
	}
	return err
}

func (s *settings) explainControl(err error) error {
	if errors.Is(err, control.ErrInUse) {
		return fmt.Errorf("another node has the control socket %s; choose another with --control", s.Control)
	}
	return err
}
