package xrc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/rds-go/rds/internal/client"
	"github.com/rds-go/rds/internal/rdstest"
)

// role is this program as another process, which is a part of a test.
type role struct {
	testing.TB
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startRole starts the process, whose descriptor 3 is the file of a domain.
func startRole(t *testing.T, domain *os.File, name string, args ...any) *role {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", rdstest.RoleEnv+"="+name, rdstest.ArgEnv+"="+strings.TrimSpace(fmt.Sprintln(args...)))
	cmd.ExtraFiles = []*os.File{domain}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &role{t, cmd, in, bufio.NewReader(out)}
}

// line is what the process says next.
func (r *role) line() string {
	r.Helper()
	line, err := r.out.ReadString('\n')
	if err != nil {
		r.Errorf("the process says %q, %v", line, err)
	}
	return strings.TrimSpace(line)
}

// stop stops the process by SIGSTOP, and returns when it is stopped.
func (r *role) stop() {
	r.Helper()
	if err := r.Process.Signal(syscall.SIGSTOP); err != nil {
		r.Fatal(err)
	}
	var status syscall.WaitStatus
	_, err := syscall.Wait4(r.Process.Pid, &status, syscall.WUNTRACED, nil)
	for errors.Is(err, syscall.EINTR) {
		_, err = syscall.Wait4(r.Process.Pid, &status, syscall.WUNTRACED, nil)
	}
	if err != nil || !status.Stopped() {
		r.Fatalf("the process is not stopped: %#x, %v", status, err)
	}
}

// playRole does what the process of a role does, and ends it. In the test's own process it returns.
func playRole(name string, play func(args []string) error) {
	if os.Getenv(rdstest.RoleEnv) == name {
		fmt.Println("failed", play(strings.Fields(os.Getenv(rdstest.ArgEnv))))
		os.Exit(1)
	}
}

// parentEnds returns when the test's process has ended, and with it its end of the standard input.
func parentEnds() error {
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// openAt begins a session with the daemon at a path.
func openAt(path string) (*Session, error) {
	c, err := client.Dial(path)
	if err != nil {
		return nil, err
	}
	o, err := c.Objects()
	if err != nil {
		return nil, err
	}
	return Open(context.Background(), o)
}
