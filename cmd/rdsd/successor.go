package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/rds"
)

// predecessor is the daemon whose place this one takes.
type predecessor struct {
	c      *ipc.Conn
	pid    int  // 0: not known
	locks  bool // it gives the lock up with go, or when it dies
	legacy *rds.Legacy
	parts  map[string]*os.File // listening sockets by name
	owns   map[string]bool     // their files are this daemon's to remove
}

// takeFrom has the daemon that listens at path leave all it has.
func takeFrom(path string, at place) (*predecessor, error) {
	c, err := ipc.Dial(path)
	if err != nil {
		return nil, fmt.Errorf("no rdsd to take over from at %s: %w", path, err)
	}
	p := &predecessor{c: c, parts: make(map[string]*os.File), owns: make(map[string]bool)}
	fail := func(err error) (*predecessor, error) {
		p.close()
		return nil, fmt.Errorf("takeover: %w", err)
	}
	cred, err := c.Peer()
	if err != nil {
		return fail(err)
	}
	_ = c.SetDeadline(time.Now().Add(takeoverAsk))
	if err := c.Send(&takeoverAskMessage{Version: takeoverVersion, Legacy: rds.LegacyVersion, Place: at, Lock: true, Lingers: true}); err != nil {
		return fail(err)
	}
	_ = c.SetDeadline(time.Now().Add(takeoverAnswerTime))
	var answer takeoverAnswer
	if err := c.Receive(&answer); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = fmt.Errorf("the running daemon does not answer: it is stopped, or hangs, or still waits for its peers after %v", takeoverAnswerTime)
		}
		return fail(err)
	}
	_ = c.SetDeadline(time.Time{}) // from here on it has limits of its own
	if answer.Error != "" {
		return fail(errors.New("the running daemon goes on: " + answer.Error))
	}
	p.locks = answer.Lock
	if cred.PID != 0 { // a daemon in another PID namespace has PID 0 here
		p.pid = answer.PID
	}
	var files []*os.File
	for len(files) < answer.Files {
		var m takeoverStepMessage
		some, err := c.ReceiveFiles(&m, min(takeoverFDs, answer.Files-len(files)))
		if err == nil && len(some) == 0 {
			err = errors.New("a message without descriptors")
		}
		if err != nil {
			ipc.CloseFiles(files)
			return fail(err)
		}
		files = append(files, some...)
	}
	if answer.Legacy < 0 || len(files) != 1+answer.Legacy+len(answer.Parts) {
		ipc.CloseFiles(files)
		return fail(fmt.Errorf("%d descriptors", len(files)))
	}
	state, err := ipc.ReadFile(files[0])
	_ = files[0].Close()
	p.legacy = &rds.Legacy{State: state, Files: files[1 : 1+answer.Legacy]}
	for i, x := range answer.Parts {
		p.parts[x.Name], p.owns[x.Name] = files[1+answer.Legacy+i], x.Owns
	}
	if err != nil {
		return fail(err)
	}
	return p, nil
}

// serve tells the predecessor that all is ready, and returns nil when this daemon has the lock, and
// so serves: when the predecessor says so, or has ended.
func (p *predecessor) serve(lock *servingLock) error {
	take := func(most time.Duration) error {
		switch got, err := lock.take(most); {
		case err != nil:
			return err
		case !got:
			return errors.New("takeover: another rdsd has the lock, and serves: this one ends")
		}
		return nil
	}
	if p.c == nil { // the predecessor has ended, and left all in the descriptor store
		return take(takeoverStep)
	}
	ended := func() bool {
		if p.locks {
			return take(takeoverKill) == nil
		}
		return p.pid != 0 && ended(p.pid) && take(0) == nil
	}
	var m takeoverStepMessage
	_ = p.c.SetReadDeadline(time.Now().Add(takeoverAnswerTime))
	err := p.c.Send(&takeoverStepMessage{Step: stepReady})
	if err == nil {
		err = p.c.Receive(&m)
	}
	switch {
	case err != nil && ended():
		_ = p.c.Send(&takeoverStepMessage{Step: stepServing}) // to whom has given up the lock, and is not dead
		return nil
	case err != nil:
		return fmt.Errorf("takeover: the running daemon goes on: %w", err)
	case m.Error != "":
		return fmt.Errorf("takeover: the running daemon goes on: %s", m.Error)
	case m.Step != stepGo:
		return fmt.Errorf("takeover: %q instead of %q", m.Step, stepGo)
	}
	if p.locks {
		if err := take(takeoverStep); err != nil {
			return err
		}
	}
	if err := p.c.Send(&takeoverStepMessage{Step: stepServing}); err != nil && !p.locks && !ended() {
		return fmt.Errorf("takeover: the running daemon goes on: %w", err)
	}
	if !p.locks {
		_ = take(0) // the predecessor has no lock; another daemon finds this one's
	}
	return nil
}

// ended tells whether a process has ended, or does so within a moment.
func ended(pid int) bool {
	for deadline := time.Now().Add(takeoverKill); ; time.Sleep(takeoverPause) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
		}
		if _, state, _ := strings.Cut(string(b), ") "); strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X") {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

// inherit makes the parts of the daemon of what the predecessor has left. They do nothing
// before begin.
func (d *daemon) inherit(p plan) error {
	h, err := rds.Succeed(p.node, p.service, d.before.legacy)
	if err != nil {
		return err
	}
	d.heir, d.node = h, h.Node
	if h.Service != nil {
		d.service, d.serving = h.Service, p.service
	}
	return nil
}

// begin has the daemon serve, in place of its predecessor if it has one, and take in
// successors.
func (d *daemon) begin(p plan, asks string) error {
	if d.before != nil {
		if err := d.before.serve(d.lock); err != nil {
			return err
		}
		d.heir.Begin()
		// Not before the predecessor has left: until then the filter's list is that one's.
		if err := d.filter.set(&d.set.Admission, d.admission.Allow); err != nil {
			d.log.Error("kernel filter not set", zap.Error(err)) // usable has found it good, and nobody else serves
		}
	}
	metrics, err := listenerOf[*net.TCPListener](d.before, partMetrics)
	if err == nil && d.before != nil {
		var l *net.UnixListener
		if l, err = listenerOf[*net.UnixListener](d.before, partControl); l != nil {
			p.control.Listener, p.control.Adopt, p.control.Path = l, d.before.owns[partControl], d.at.Control
		}
	}
	if err == nil && d.before != nil {
		err = d.show(p.control, metrics)
	}
	if err != nil {
		d.log.Error("not shown", zap.Error(err)) // the node serves
	}
	if asks == "" {
		if d.before != nil {
			d.before.close()
		}
		return nil
	}
	l, err := listenerOf[*net.UnixListener](d.before, partTakeover)
	if err == nil {
		var t *takeoverServer
		if t, err = serveTakeover(asks, l, d.at, d.log); err == nil {
			d.came, d.watch, d.parts = t.came, append(d.watch, t), append(d.parts, ownPart{t, partTakeover})
		}
	}
	if err != nil {
		d.log.Warn("no successor can take over", zap.Error(err))
	}
	if d.before != nil {
		d.before.close()
	}
	return nil
}

// refuse tells the predecessor that it has to go on.
func (p *predecessor) refuse(err error) {
	if p.c != nil {
		_ = p.c.SetDeadline(time.Now().Add(takeoverStep))
		_ = p.c.Send(&takeoverStepMessage{Error: err.Error()})
	}
	p.close()
}

func (p *predecessor) close() {
	if p.c != nil {
		_ = p.c.Close()
	}
	if p.legacy != nil {
		p.legacy.Close()
	}
	for _, f := range p.parts {
		_ = f.Close()
	}
}

// listenerOf makes a listener of a part of the predecessor, none if there is no such part.
func listenerOf[L net.Listener](p *predecessor, name string) (l L, err error) {
	if p == nil || p.parts[name] == nil {
		return l, nil
	}
	x, err := net.FileListener(p.parts[name]) // the listener has a descriptor of its own
	if err != nil {
		return l, err
	}
	l, ok := x.(L)
	if !ok {
		_ = x.Close()
		return l, fmt.Errorf("takeover: a listener of another kind at %v", x.Addr())
	}
	return l, nil
}

// spawn starts a successor of this daemon: the program of the same name, as it is now on
// the disk, with the same arguments.
func (d *daemon) spawn() {
	args := slices.Clone(os.Args[1:])
	if !slices.Contains(args, "--takeover") {
		args = append(args, "--takeover")
	}
	cmd := exec.Command(d.program, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "LISTEN_") })
	if err := cmd.Start(); err != nil {
		d.log.Error("no successor", zap.String("program", d.program), zap.Error(err))
		return
	}
	d.log.Info("successor started", zap.Int("successor", cmd.Process.Pid))
	go func() {
		if err := cmd.Wait(); err != nil {
			d.log.Warn("successor ended", zap.Int("successor", cmd.Process.Pid), zap.Error(err))
		}
	}()
}
