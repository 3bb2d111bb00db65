//go:build live

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
	must(t, err)
	l.SetUnlinkOnClose(false)
	l.Close()
}

func TestServeReplacesStaleSocket(t *testing.T) {
	path := socket(t)
	stale(t, path)
	serve(t, path, constant)
	must(t, Fetch(limit(t), path, new(report)))
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
	must(t, os.Remove(path))
	serve(t, path, constant)
	first.Close()
	if err := Fetch(limit(t), path, new(report)); err != nil {
		t.Errorf("the second server is gone: %v", err)
	}
}
