//go:build interop

package interop

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
	"github.com/rds-go/rds/test/interop/peer"
)

// daemon is an rdsd in the namespace, for a node program that is attached to it.
type daemon struct {
	l       *lab
	cmd     *exec.Cmd
	socket  string
	control string
	log     string
	args    []string
}

// startApplication starts an rdsd that serves addr and the addresses of first
// contacts after it, with further arguments, and a node program attached to it.
func (l *lab) startApplication(t *testing.T, addr netip.Addr, paths int, args ...string) *process {
	t.Helper()
	dir := rdstest.Dir(t)
	all := []string{addr.String()}
	for a := addr; len(all) <= contacts; all = append(all, a.String()) {
		a = a.Next()
		l.addAddr(t, a)
	}
	d := &daemon{l: l, socket: filepath.Join(dir, "s"), control: filepath.Join(dir, "c"), log: l.logFile(t, "rdsd-")}
	d.args = append([]string{
		"--listen", strings.Join(all, ","), "--npaths", strconv.Itoa(paths),
		"--socket", d.socket, "--control", d.control, "--drain", "1s", "--log-level", "debug",
	}, args...)
	d.start(t)
	t.Cleanup(func() {
		d.kill()
		if t.Failed() {
			t.Logf("end of the output of rdsd:\n%s", tail(d.log, 32<<10))
		}
	})
	p := l.startProgram(t, "application", addr, "-socket", d.socket)
	p.daemon = d
	return p
}

// start starts the daemon and waits until it takes applications.
func (d *daemon) start(t *testing.T) {
	t.Helper()
	must(t, d.launch())
	err := poll(t.Context(), func() (bool, error) {
		c, err := rds.Dial(d.socket)
		if err != nil {
			return false, nil
		}
		return true, c.Close()
	})
	if err != nil {
		t.Fatalf("rdsd does not start: %v\n%s", err, tail(d.log, 4<<10))
	}
}

// launch starts the daemon's process, with further arguments.
func (d *daemon) launch(more ...string) error {
	program, err := daemonOnce()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(d.log, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	d.cmd = d.l.command(program, slices.Concat(d.args, more)...)
	d.cmd.Stdout, d.cmd.Stderr = log, log
	return d.cmd.Start()
}

// upgrade has a new process take the daemon's place, and waits for the end of the old one.
func (d *daemon) upgrade() error {
	was := d.cmd
	if err := d.launch("--takeover"); err != nil {
		return err
	}
	return was.Wait()
}

// info is the daemon's report.
func (d *daemon) info(ctx context.Context) (rds.Info, error) { return rds.FetchInfo(ctx, d.control) }

// kill ends the daemon as a crash would.
func (d *daemon) kill() {
	_ = d.cmd.Process.Kill()
	_ = d.cmd.Wait()
}

// restartDaemon ends the daemon under a node program, which lives on, and starts
// another one at its place.
func (p *process) restartDaemon(t *testing.T, crash bool) {
	t.Helper()
	if crash {
		p.daemon.kill()
	} else {
		_ = p.daemon.cmd.Process.Signal(syscall.SIGTERM)
		_ = p.daemon.cmd.Wait() // status 1: a stream in full flow cannot be drained
	}
	p.daemon.start(t)
	ctx, cancel := context.WithTimeout(t.Context(), callTime)
	defer cancel()
	err := poll(ctx, func() (bool, error) { return p.Call(ctx, peer.OpCounters, nil, nil) == nil, nil })
	if err != nil {
		t.Fatalf("%s is not attached again: %v", p.name, err)
	}
}
