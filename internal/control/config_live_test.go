//go:build live

package control

import (
	"net"
	"os"
	"testing"
)

// A listener that was given is served, closed, and its file left to its owner.
func TestGivenListener(t *testing.T) {
	path := socket(t)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false) // as one inherited from a service manager
	s, err := Config{Path: "/not/used", Listener: l}.Serve(constant)
	if err != nil {
		t.Fatal(err)
	}
	var got report
	if err := Fetch(limit(t), path, &got); err != nil || got.Count != 7 {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the socket file is gone: %v", err)
	}
	if _, err := net.Dial("unix", path); err == nil {
		t.Error("the listener is still open")
	}
}
