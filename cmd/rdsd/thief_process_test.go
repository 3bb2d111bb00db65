//go:build live

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

// A user who binds the port of another user's application again and again does not get it while the
// daemon restarts, nor what was parked for it: that is the application's, which attaches again.
func TestNobodyTakesAPortAtARestart(t *testing.T) {
	clitest.NeedLoopback(t)
	needRoot(t)
	for _, kill := range []bool{false, true} {
		for _, wire := range []string{"xrc", "tcp"} {
			t.Run(fmt.Sprintf("%s, killed %v", wire, kill), func(t *testing.T) {
				r := restarts{T: t, dir: rdstest.Dir(t), wire: wire, rate: 2000, times: 3, kill: kill, down: 50 * time.Millisecond, hold: 300 * time.Millisecond}
				must(t, os.Chmod(r.dir, 0o755))
				var p *clitest.Process
				r.begin = func(from, to *side) {
					p = clitest.StartAs(t, as(12001), []string{fmt.Sprintf("%s=%s %s", thiefEnv, to.path, to.addr)}, "/proc/self/exe")
					p.Line(p.Stdout, "tries: ")
				}
				r.run()
				if text := p.Stdout.String(); strings.Contains(text, "bound") {
					t.Errorf("PROMISE: another user has the port: %s", text)
				}
			})
		}
	}
}

// The same of a service id of XRC; and rules say who may advertise which ids at all.
func TestNobodyTakesAServiceAtARestart(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	needRoot(t)
	dir := rdstest.Dir(t)
	must(t, os.Chmod(dir, 0o755))
	path := filepath.Join(dir, "a.sock")
	file := write(t, "listen = ['127.22.66.1']\nport = 17266\n[[services]]\nrange = '0x2000-0x2fff'\nusers = [12001]\n")
	args := []string{"--config", file, "--socket", path, "--control", "none", "--drain", "0s"}
	d := daemonAt(t, args...)
	c, err := rds.NewClient(rds.ClientConfig{Path: path, Reconnect: true})
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	must(t, advertise(c, stolenService))
	p := clitest.StartAs(t, as(12001), []string{serviceThiefEnv + "=" + path}, "/proc/self/exe")
	p.Line(p.Stdout, "tries: ")
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGTERM} {
		d.Signal(sig)
		d.Wait()
		d = daemonAt(t, args...)
		rdstest.Eventually(t, "the owner to have the service id again", func() bool { return advertise(c, stolenService) == nil })
	}
	if text := p.Stdout.String(); strings.Contains(text, "advertised") {
		t.Errorf("another user has the service id: %s", text)
	}
	other, err := rds.Dial(path)
	must(t, err)
	t.Cleanup(func() { _ = other.Close() })
	if err := advertise(other, 0x2001); !errors.Is(err, rds.ErrPermission) {
		t.Errorf("a service id that is reserved for another user: %v", err)
	}
	must(t, advertise(other, 0x3000))
}

// A domain whose file another user may not read is not that user's to join: neither with a descriptor of
// O_PATH, which everybody gets who may search the directory.
func TestNobodyJoinsADomainWithoutReading(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	needRoot(t)
	dir := rdstest.Dir(t)
	must(t, os.Chmod(dir, 0o755))
	path, file := filepath.Join(dir, "a.sock"), filepath.Join(dir, "job")
	daemonAt(t, "--listen", "127.22.67.1", "--port", "17267", "--socket", path, "--control", "none")
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	must(t, err)
	defer f.Close()
	c, err := rds.Dial(path)
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	s, err := c.XRC(context.Background())
	must(t, err)
	_, err = s.OpenDomain(f, os.O_CREATE)
	must(t, err)
	p := clitest.StartAs(t, as(12001), []string{pathThiefEnv + "=" + path + " " + file}, "/proc/self/exe")
	if line := p.Line(p.Stdout, "domain: "); !strings.Contains(line, "may not do that") {
		t.Errorf("another user's process: %s", line)
	}
	must(t, os.Chmod(file, 0o644))
	q := clitest.StartAs(t, as(12001), []string{pathThiefEnv + "=" + path + " " + file}, "/proc/self/exe")
	if line := q.Line(q.Stdout, "domain: "); !strings.Contains(line, "may not do that") {
		t.Errorf("a descriptor of O_PATH of a file that could be read: %s", line)
	}
}
