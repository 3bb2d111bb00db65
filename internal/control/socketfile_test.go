//go:build !live

package control

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestServeLeavesOtherFilesAlone(t *testing.T) {
	path := socket(t)
	must(t, os.WriteFile(path, []byte("precious"), 0o600))
	if _, err := Serve(path, constant); !errors.Is(err, errNotSocket) {
		t.Errorf("error %v, want errNotSocket", err)
	}
	if b, _ := os.ReadFile(path); string(b) != "precious" {
		t.Errorf("file now holds %q", b)
	}
}

func TestServeErrors(t *testing.T) {
	path := socket(t)
	for _, c := range []struct {
		path string
		want error
	}{
		{filepath.Join(filepath.Dir(path), "none", "c.sock"), syscall.ENOENT},
		{path + strings.Repeat("x", 100), syscall.ENAMETOOLONG},
	} {
		if _, err := Serve(c.path, constant); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", c.path, err, c.want)
		}
	}
}

func TestDefaultPaths(t *testing.T) {
	t.Setenv(envPath, "/elsewhere/c.sock")
	if f, s := FindPath(), ServePath(); f != "/elsewhere/c.sock" || s != f {
		t.Errorf("with %s: %s and %s", envPath, f, s)
	}
	t.Setenv(envPath, "")
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/7")
	if _, err := os.Lstat(systemPath); err != nil {
		if f := FindPath(); f != "/run/user/7/rdsd.sock" {
			t.Errorf("FindPath %s", f)
		}
	}
	want := systemPath
	if os.Geteuid() != 0 {
		want = "/run/user/7/rdsd.sock"
	}
	if s := ServePath(); s != want {
		t.Errorf("ServePath %s, want %s", s, want)
	}
}
