//go:build live

package main

import (
	"strings"
	"testing"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/netlab"
)

// daemonOn starts a daemon on a host of a test's own. It may not be ready yet.
func daemonOn(t *testing.T, host *netlab.Host, args ...string) *clitest.Process {
	t.Helper()
	command := host.Args(append([]string{bin.Path("rdsd")}, args...)...)
	return clitest.StartEnv(t, []string{"RDS_SOCKET=none", "RDS_CONTROL=none"}, command[0], command[1:]...)
}

// A host that loses an address of rdsd, as when a lease ends, is one that peers cannot reach.
func TestDaemonTellsOfAddressThatHasGone(t *testing.T) {
	t.Parallel()
	host, _ := netlab.Pair(t)
	ip := host.IP4.String()
	d := daemonOn(t, host, "--listen", ip+",127.0.0.1")
	if line := d.Line(d.Stderr, "listening"); !strings.Contains(line, `"tcp_port": 16385, "xrc_port": 18634`) {
		t.Errorf("not both ports: %s", line)
	}
	d.Line(d.Stderr, "ready")
	host.Run("ip", "address", "del", ip+"/16", "dev", "eth0")
	if line := d.Line(d.Stderr, "has gone from the host"); !strings.Contains(line, ip) || !strings.Contains(line, "WARN") {
		t.Errorf("%s", line)
	}
	host.Run("ip", "address", "add", ip+"/16", "dev", "eth0")
	if line := d.Line(d.Stderr, "is back"); !strings.Contains(line, ip) {
		t.Errorf("%s", line)
	}
	terminate(t, d)
}
