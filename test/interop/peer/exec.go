package peer

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"sync"
	"time"
)

const (
	// maxOutput is how much of a program's output is kept. As JSON it takes up
	// to six times as much and must fit a line.
	maxOutput = 128 << 10
	// pipeTime is how long a program that ended may leave its pipes open to
	// others.
	pipeTime = time.Second
)

// program is one that OpExec runs: the output so far and its standard input.
type program struct {
	mu    sync.Mutex // guards the fields below
	stdin io.WriteCloser
	out   []byte
	cut   int
	over  bool
	more  chan struct{} // closed, and a new one made, at every change of the above
}

func newProgram() *program { return &program{more: make(chan struct{})} }

// run runs the program until it ends or ctx does, which kills it.
func (p *program) run(ctx context.Context, a ExecArgs) (any, error) {
	if len(a.Argv) == 0 {
		return nil, exec.ErrNotFound
	}
	cmd := exec.CommandContext(ctx, a.Argv[0], a.Argv[1:]...)
	cmd.Env = append(cmd.Environ(), a.Env...)
	cmd.Stdout, cmd.Stderr = p, p
	cmd.WaitDelay = pipeTime
	dieWithParent(cmd)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p.change(func() { p.stdin = stdin })
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && ctx.Err() == nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return ExecResult{Output: string(p.out), Cut: p.cut, Status: cmd.ProcessState.ExitCode(), State: cmd.ProcessState.String()}, nil
}

// Write takes what the program prints.
func (p *program) Write(b []byte) (int, error) {
	p.change(func() {
		keep := min(len(b), maxOutput-len(p.out))
		p.out = append(p.out, b[:keep]...)
		p.cut += len(b) - keep
	})
	return len(b), nil
}

// end tells those who wait that nothing will follow.
func (p *program) end() { p.change(func() { p.over = true }) }

// change runs f under the lock and wakes those who wait.
func (p *program) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.more)
	p.more = make(chan struct{})
}

// await waits until ready, which runs under the lock, or the program's end.
func (p *program) await(ctx context.Context, ready func() bool) error {
	for {
		p.mu.Lock()
		done := ready() || p.over
		more := p.more
		p.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// after returns the output from an offset on, waiting until there is some.
func (p *program) after(ctx context.Context, from int) (r OutputResult, err error) {
	err = p.await(ctx, func() bool {
		r.Running = !p.over
		if from >= 0 && from < len(p.out) {
			r.Output = string(p.out[from:])
		}
		return r.Output != ""
	})
	return r, err
}

// write gives the program input once it runs.
func (p *program) write(ctx context.Context, text string) error {
	var stdin io.WriteCloser
	if err := p.await(ctx, func() bool { stdin = p.stdin; return p.stdin != nil }); err != nil {
		return err
	}
	if stdin == nil {
		return io.ErrClosedPipe
	}
	_, err := io.WriteString(stdin, text)
	return err
}

// program returns that of a command under way, nil if it has none.
func (s *Server) program(call uint64) *program {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tasks[call]; t != nil {
		return t.program
	}
	return nil
}

func (s *Server) output(ctx context.Context, a OutputArgs) (any, error) {
	p := s.program(a.Call)
	if p == nil {
		return OutputResult{}, nil
	}
	return p.after(ctx, a.From)
}

func (s *Server) input(ctx context.Context, a InputArgs) (any, error) {
	p := s.program(a.Call)
	if p == nil {
		return nil, io.ErrClosedPipe
	}
	return nil, p.write(ctx, a.Text)
}
