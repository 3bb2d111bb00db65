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
	must(t, err)
	l.SetUnlinkOnClose(false) // as one inherited from a service manager
	s, err := Config{Path: "/not/used", Listener: l}.Serve(constant)
	must(t, err)
	var got report
	if err := Fetch(limit(t), path, &got); err != nil || got.Count != 7 {
		t.Errorf("got %+v, %v", got, err)
	}
	must(t, s.Close())
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the socket file is gone: %v", err)
	}
	if _, err := net.Dial("unix", path); err == nil {
		t.Error("the listener is still open")
	}
}
