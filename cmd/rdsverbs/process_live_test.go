//go:build live

package main

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
)

// A host that takes the connection and says nothing, and one that takes none.
func TestServersThatAreNone(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp4", "127.0.0.1:0")
	rdstest.Must(t, err)
	defer silent.Close()
	for _, c := range []struct{ port, timeout, want string }{
		{fmt.Sprint(silent.Addr().(*net.TCPAddr).Port), "100ms", errTimeout.Error()},
		{"1", "20s", "connection refused"}, // a port that no other test is given
	} {
		for _, args := range [][]string{{"rping", "client"}, {"op", "wait"}} {
			status, stdout, stderr := verbs(t, []string{"-a", "127.0.0.1", "-p", c.port, "-W", c.timeout}, args...)
			if status != 1 || stdout != "" || !strings.Contains(stderr, c.want) {
				t.Errorf("%v: status %d\n%s%s", args, status, stdout, stderr)
			}
		}
	}
}

func TestAddressInUse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	rdstest.Must(t, err)
	defer l.Close()
	port := fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
	for _, args := range [][]string{{"rping", "server"}, {"serve"}} {
		status, _, stderr := verbs(t, []string{"-a", "127.0.0.1", "-p", port}, args...)
		if status != 2 || !strings.Contains(stderr, "address already in use") {
			t.Errorf("%v: status %d: %s", args, status, stderr)
		}
	}
}
