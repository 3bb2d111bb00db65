//go:build live

package bench

import (
	"net"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
)

// Connections are cut that are in use, and not those that somebody still waits for.
func TestConnectionInUse(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	rdstest.Must(t, err)
	defer l.Close()
	c, err := net.Dial("tcp4", l.Addr().String())
	rdstest.Must(t, err)
	defer c.Close()
	rc, err := c.(*net.TCPConn).SyscallConn()
	rdstest.Must(t, err)
	used := func() (used bool) {
		rdstest.Must(t, rc.Control(func(fd uintptr) { used = inUse(int(fd)) }))
		return used
	}
	if used() {
		t.Error("a connection that has sent nothing is in use")
	}
	if _, err := c.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	if !used() {
		t.Error("a connection that has sent something is not in use")
	}
	if inUse(0) {
		t.Error("what is no connection is in use")
	}
}
