//go:build live

package statefile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// fileSystem is a tmpfs with room for n bytes.
func fileSystem(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("needs to mount a file system: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// fill takes all the room there is.
func fill(t *testing.T, dir string) (file string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "full"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for {
		if _, err := f.Write(make([]byte, 4096)); errors.Is(err, unix.ENOSPC) {
			return f.Name()
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// In a file system without room there is no file, and an error says why. A file that was there before is
// read: it has its room. What finds no room later is not in the file, and is told once.
func TestFullFileSystem(t *testing.T) {
	dir := fileSystem(t, "size=1m")
	filler := fill(t, dir)
	path := filepath.Join(dir, "state")
	if _, err := Open(path, nil); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("opened with %v", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	told := make(chan error, 10)
	open := func() *File {
		f, err := Open(path, func(err error) { told <- err })
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	f := open()
	f.Hold(here, 4000, user(f, 7))
	p := add(f, 42, 0, 9, 1)
	fill(t, dir)
	for i := range 200 {
		add(f, 1, 0, uint64(1+i), 1)
	}
	for port := range uint16(5000) {
		f.Hold(here, 10000+port, nil)
	}
	for i := range 200 {
		user(f, uint32(i))
	}
	f.Hold(there, 1, nil)
	p.Take(0, 10, 1)
	f.Close()
	if err := <-told; !errors.Is(err, unix.ENOSPC) || len(told) > 0 {
		t.Errorf("%v, and %d more", err, len(told))
	}
	for range 2 { // restarts, with no room yet
		f = open()
		if n := len(f.Peers()); n == 0 || f.Peers()[0].Next[0].Load() != 10 || f.Left()[keyOf(4000)] == nil {
			t.Errorf("%d peers, %d ports", n, len(f.Left()))
		}
		f.Close()
	}
	closed := filepath.Join(fileSystem(t, "ro"), "state")
	if _, err := Open(closed, nil); !errors.Is(err, unix.EROFS) {
		t.Errorf("a file system that takes nothing: %v", err)
	}
}
