package clitest

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// limit bounds the life of a process. It is for tests that fail: a server that lives as long as its test does needs
// more than a minute where several packages are tested at once.
func limit() time.Duration {
	if os.Getenv("RDS_LONG") != "" {
		return 10 * time.Minute
	}
	return 4 * time.Minute
}

// Process is a running command.
type Process struct {
	Stdout, Stderr *Output

	t    *testing.T
	ctx  context.Context
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// Start runs a binary. The process is killed when the test ends.
func Start(t *testing.T, binary string, args ...string) *Process {
	t.Helper()
	return StartEnv(t, nil, binary, args...)
}

// StartEnv is Start with variables added to the environment.
func StartEnv(t *testing.T, env []string, binary string, args ...string) *Process {
	t.Helper()
	return StartAs(t, nil, env, binary, args...)
}

// StartAs is StartEnv with attributes of the system, such as another user.
func StartAs(t *testing.T, attr *syscall.SysProcAttr, env []string, binary string, args ...string) *Process {
	t.Helper()
	return StartCommand(t, func(cmd *exec.Cmd) { cmd.Env, cmd.SysProcAttr = append(cmd.Env, env...), attr }, binary, args...)
}

// StartCommand is Start of a command that prepare has changed.
func StartCommand(t *testing.T, prepare func(*exec.Cmd), binary string, args ...string) *Process {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit())
	p := &Process{Stdout: newOutput(), Stderr: newOutput(), t: t, ctx: ctx, done: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, binary, args...)
	p.cmd.Env = os.Environ()
	prepare(p.cmd)
	p.cmd.Stdout, p.cmd.Stderr = p.Stdout, p.Stderr
	if err := p.cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // ProcessState tells
		p.Stdout.end()
		p.Stderr.end()
		close(p.done)
	}()
	t.Cleanup(func() {
		cancel()
		<-p.done
		if said := p.Stderr.String(); crashed(said) {
			t.Errorf("PROMISE: %v has crashed:\n%s", p.cmd.Args, said)
		}
	})
	return p
}

// crashed tells whether a Go program says that it panics, or the race detector in it that there was a race.
func crashed(stderr string) bool {
	return strings.Contains(stderr, "WARNING: DATA RACE") ||
		strings.Contains(stderr, "\ngoroutine ") && (strings.Contains(stderr, "panic: ") || strings.Contains(stderr, "fatal error: "))
}

// Run runs a binary to its end and returns its exit status.
func Run(t *testing.T, binary string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	p := Start(t, binary, args...)
	status = p.Wait()
	return status, p.Stdout.String(), p.Stderr.String()
}

// Wait waits for the end and returns the exit status, -1 after a signal.
func (p *Process) Wait() int {
	p.t.Helper()
	<-p.done
	if p.ctx.Err() != nil {
		p.t.Fatalf("%v still runs after %v\nstdout:\n%s\nstderr:\n%s", p.cmd.Args, limit(), p.Stdout, p.Stderr)
	}
	return p.cmd.ProcessState.ExitCode()
}

// PID is the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal.
func (p *Process) Signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("%v: %v", p.cmd.Args, err)
	}
}

// Line waits until a line of output that no earlier call returned holds text,
// and returns it. Lines before it are passed over.
func (p *Process) Line(o *Output, text string) string {
	p.t.Helper()
	line, ok := o.next(text)
	if !ok {
		p.t.Fatalf("%v ended without %q\nstdout:\n%s\nstderr:\n%s", p.cmd.Args, text, p.Stdout, p.Stderr)
	}
	return line
}

// Output collects what a process writes.
type Output struct {
	mu    sync.Mutex // guards the fields below
	more  *sync.Cond // signals that the fields below have changed
	data  []byte
	read  int // bytes that next has passed
	ended bool
}

func newOutput() *Output {
	o := new(Output)
	o.more = sync.NewCond(&o.mu)
	return o
}

// Write implements io.Writer for the process.
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.data = append(o.data, b...)
	o.more.Broadcast()
	return len(b), nil
}

func (o *Output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	o.more.Broadcast()
}

// String is everything so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.data)
}

func (o *Output) next(text string) (string, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		for {
			n := bytes.IndexByte(o.data[o.read:], '\n')
			if n < 0 {
				break
			}
			line := string(o.data[o.read : o.read+n])
			o.read += n + 1
			if strings.Contains(line, text) {
				return line, true
			}
		}
		if o.ended {
			return "", false
		}
		o.more.Wait()
	}
}
