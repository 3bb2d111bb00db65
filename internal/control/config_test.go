//go:build live

package control

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestModeAndGroup(t *testing.T) {
	for _, mode := range []fs.FileMode{0o600, 0o666, 0} {
		path := socket(t)
		s, err := Config{Path: path, Mode: mode, Group: os.Getgid()}.Serve(constant)
		must(t, err)
		t.Cleanup(func() { s.Close() })
		info, err := os.Lstat(path)
		must(t, err)
		want := mode
		if want == 0 {
			want = DefaultMode
		}
		if info.Mode().Perm() != want {
			t.Errorf("mode %v, want %v", info.Mode(), want)
		}
	}
}

func TestGroupOfTheFile(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to give a file to another group")
	}
	path := socket(t)
	s, err := Config{Path: path, Group: 12345}.Serve(constant)
	must(t, err)
	defer s.Close()
	info, err := os.Lstat(path)
	must(t, err)
	if gid := info.Sys().(*syscall.Stat_t).Gid; gid != 12345 {
		t.Errorf("group %d, want 12345", gid)
	}
}

// A group that may not be given fails the start and leaves no file.
func TestGroupThatCannotBe(t *testing.T) {
	path := socket(t)
	if os.Geteuid() == 0 {
		t.Skip("needs another user than root, who may give files to any group")
	}
	gid := uint32(math.MaxUint32 - 1) // negative as an int of 32 bits
	if _, err := (Config{Path: path, Group: int(gid)}).Serve(constant); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("group %d: ", int(gid))) {
		t.Errorf("error %v, want one that names the group", err)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 0 {
		t.Errorf("files left: %v", left)
	}
}
