package control

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// stale leaves a socket file without a server, as a killed process does.
func stale(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
}

func TestServeReplacesStaleSocket(t *testing.T) {
	path := socket(t)
	stale(t, path)
	serve(t, path, constant)
	if err := Fetch(limit(t), path, new(report)); err != nil {
		t.Error(err)
	}
	if files, _ := os.ReadDir(filepath.Dir(path)); len(files) != 1 {
		t.Errorf("files left: %v", files)
	}
}

func TestServeRefusesLiveSocket(t *testing.T) {
	path := socket(t)
	serve(t, path, constant)
	s, err := Serve(path, func() (any, error) { return report{"thief", 0}, nil })
	if err == nil {
		s.Close()
	}
	if !errors.Is(err, ErrInUse) || !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v, want ErrInUse with the path", err)
	}
	var got report
	if err := Fetch(limit(t), path, &got); err != nil || got.Name != "node" {
		t.Errorf("the first server answers %+v, %v", got, err)
	}
}

func TestServeLeavesOtherFilesAlone(t *testing.T) {
	path := socket(t)
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
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

// Of many servers that start over a stale file at once exactly one gets it.
func TestServeRace(t *testing.T) {
	path := socket(t)
	stale(t, path)
	const servers = 16
	var wg sync.WaitGroup
	won := make(chan int, servers)
	for i := range servers {
		wg.Go(func() {
			s, err := Serve(path, func() (any, error) { return report{"racer", i}, nil })
			if err == nil {
				t.Cleanup(func() { s.Close() })
				won <- i
			} else if !errors.Is(err, ErrInUse) {
				t.Errorf("server %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if len(won) != 1 {
		t.Fatalf("%d servers have the socket, want 1", len(won))
	}
	var got report
	if err := Fetch(limit(t), path, &got); err != nil || got.Count != <-won {
		t.Errorf("answer %+v, %v: not from the winner", got, err)
	}
}

// A server that lost its file to another one must not remove the other's.
func TestCloseLeavesForeignSocket(t *testing.T) {
	path := socket(t)
	first := serve(t, path, constant)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	serve(t, path, constant)
	first.Close()
	if err := Fetch(limit(t), path, new(report)); err != nil {
		t.Errorf("the second server is gone: %v", err)
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
