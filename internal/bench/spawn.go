package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// side is one of the two hosts of a run.
type side int

const (
	clientSide side = iota
	serverSide
)

// endLimit is how long a process that was started may take to end by itself.
const endLimit = 3 * time.Second

// child is what this process commands: a process that it has started (a server, an rdsd, an
// application), whose control connection is its standard input and output; itself; or a
// server that runs.
type child struct {
	*controller
	cmd       *exec.Cmd // nil but for a process that was started
	suspended bool
	ended     chan struct{} // closed when the child has ended; nil but for this process
}

// pipes are a child's standard output and input. The child ends when the
// latter does.
type pipes struct {
	io.Reader
	io.WriteCloser
}

// start runs `rdsbench child` on a side, with more flags. name is for errors.
func (r *Runner) start(name string, s side, flags ...string) (*child, error) {
	return r.startOn(name, s, r.ip(s), flags...)
}

// startOn is start with another address.
func (r *Runner) startOn(name string, s side, ip netip.Addr, flags ...string) (*child, error) {
	program := r.Program
	if program == "" {
		var err error
		if program, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	args := []string{"child", "--listen", ip.String(), "--pin", string(r.pin), fmt.Sprintf("--client=%t", s == clientSide)}
	cmd := exec.Command(program, append(args, flags...)...)
	cmd.Stderr = os.Stderr
	dieWithParent(cmd)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the %s: %w", name, err)
	}
	return &child{controller: newController(name, pipes{stdout, stdin}), cmd: cmd}, nil
}

// local has this process serve itself, in a session.
func (r *Runner) local(ip netip.Addr, e *session) *child {
	ours, theirs := net.Pipe()
	c := &child{controller: newController("client", ours), ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		s := Server{IP: ip, Config: r.Config}
		e.parent = true
		_ = s.client(context.Background(), theirs, e) // fails only if the pipe was closed, by us
	}()
	return c
}

// ip is the address of a side; that of the server if it is on this host.
func (r *Runner) ip(s side) netip.Addr {
	switch {
	case s == serverSide:
		return serverIP
	case r.Options.Listen.IsValid():
		return r.Options.Listen
	case r.here.IsValid():
		return r.here
	}
	return clientIP
}

func (c *child) kill() {
	if c.cmd == nil {
		c.conn.Close()
		return
	}
	c.cmd.Process.Kill()
}

// suspend stops the process as SIGSTOP does, until it is resumed or ended.
func (c *child) suspend() error {
	c.suspended = true
	return c.cmd.Process.Signal(syscall.SIGSTOP)
}

// resume lets a suspended process go on.
func (c *child) resume() error {
	c.suspended = false
	return c.cmd.Process.Signal(syscall.SIGCONT)
}

// destroy kills the process and waits for it.
func (c *child) destroy() {
	c.watch(nil)
	c.kill()
	c.close()
	_ = c.cmd.Wait() // The process was killed.
}

// end has the child end, by force if it takes too long, and waits for it.
func (c *child) end() error {
	kill := time.AfterFunc(endLimit, c.kill)
	defer kill.Stop()
	if c.suspended { // the child cannot end by itself
		c.destroy()
		return nil
	}
	c.close()
	if c.ended != nil {
		<-c.ended
	}
	if c.cmd == nil {
		return nil
	}
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", c.peer, err)
	}
	return nil
}

// children are processes that do the same.
type children []*child

// call makes a request to all at the same time; q makes that of each.
func (cs children) call(q func(i int) request) ([]response, error) {
	responses, errs := make([]response, len(cs)), make([]error, len(cs))
	var wg sync.WaitGroup
	for i, c := range cs {
		wg.Go(func() { responses[i], errs[i] = c.call(q(i)) })
	}
	wg.Wait()
	for _, err := range errs { // one error is enough where all fail in the same way
		if err != nil {
			return nil, err
		}
	}
	return responses, nil
}

// end ends all.
func (cs children) end() error {
	errs := make([]error, len(cs))
	var wg sync.WaitGroup
	for i, c := range cs {
		wg.Go(func() { errs[i] = c.end() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// freePort returns a port that can be listened on at all of ips: want, or any
// if want is 0. Beside the latter there is one for RDS on XRC. It is none of those
// that systems give to connections by themselves (Linux: from 32768 on): one of them
// could have it before the caller has.
func freePort(want uint16, ips ...netip.Addr) (uint16, error) {
	if want != 0 {
		return want, tryPort(want, ips)
	}
	var errs error
	for range 10 {
		port := uint16(firstPort + (portStart+portStep.Add(2))%(lastPort-firstPort))
		err := errors.Join(tryPort(port, ips), tryPort(port^1, ips))
		if err == nil {
			return port, nil
		}
		errs = errors.Join(errs, err)
	}
	return 0, errs
}

// Where freePort looks: from somewhere on, and nowhere twice.
const (
	firstPort = 20000
	lastPort  = 32768
)

var (
	portStart = rand.Uint32N(lastPort - firstPort)
	portStep  atomic.Uint32
)

func tryPort(port uint16, ips []netip.Addr) error {
	for _, ip := range ips {
		l, err := net.Listen("tcp", net.JoinHostPort(ip.String(), strconv.Itoa(int(port))))
		if err != nil {
			return err
		}
		defer l.Close()
	}
	return nil
}
