//go:build live

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

// mount puts a file system of its own at a directory.
func mount(t *testing.T, dir, options string) {
	t.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("needs to mount a file system: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
}

// In a directory whose file system is full a daemon serves, and says that it has no state file; one that has
// had its file before goes on with it, and through a takeover and a SIGKILL too. A file that is cut while a
// daemon runs costs nothing but a line of the log.
func TestDaemonInAFullFileSystem(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	needRoot(t)
	dir := rdstest.Dir(t)
	mount(t, dir, "size=512k")
	filler := filepath.Join(dir, "filler")
	fill := func() {
		f, err := os.Create(filler)
		must(t, err)
		defer f.Close()
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "a.sock")
	args := []string{"--listen", "127.22.68.1", "--port", "17268", "--socket", path, "--control", "none", "--drain", "1s"}
	works := func(d *clitest.Process) {
		t.Helper()
		c := clientOf(t, path)
		s := bind(t, c, "127.22.68.1:0")
		must(t, s.Send(t.Context(), s.LocalAddrPort(), []byte("x")))
		m, err := s.Recv(t.Context())
		must(t, err)
		m.Release()
		must(t, c.Close())
		if strings.Contains(d.Stderr.String(), "panic") {
			t.Error(d.Stderr)
		}
	}
	fill()
	d := daemonAt(t, args...)
	if !strings.Contains(d.Stderr.String(), "no space left on device") {
		t.Errorf("nobody hears that there is no state file: %s", d.Stderr)
	}
	works(d)
	terminate(t, d)
	must(t, os.Remove(filler))

	d = daemonAt(t, args...)
	works(d)
	fill()
	works(d)
	next := daemonAt(t, append(args, "--takeover")...)
	if status := d.Wait(); status != 0 {
		t.Errorf("the predecessor's status is %d: %s", status, d.Stderr)
	}
	works(next)
	next.Signal(syscall.SIGKILL)
	next.Wait()
	d = daemonAt(t, args...)
	works(d)
	must(t, os.Truncate(strings.TrimSuffix(path, ".sock")+".state", 0))
	works(d)
	d.Line(d.Stderr, "somebody has cut the file")
	works(d)
	terminate(t, d)
}

// Where nothing can be made a daemon says what, and ends.
func TestDaemonInAReadOnlyDirectory(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	needRoot(t)
	dir := rdstest.Dir(t)
	mount(t, dir, "ro")
	path := filepath.Join(dir, "a.sock")
	status, _, stderr := clitest.Run(t, bin.Path("rdsd"), "--listen", "127.22.69.1", "--port", "17269", "--socket", path, "--control", "none")
	if status != 1 || !strings.Contains(stderr, "read-only file system") {
		t.Errorf("status %d: %s", status, stderr)
	}
	if _, err := rds.Dial(path); err == nil {
		t.Error("somebody serves")
	}
}
