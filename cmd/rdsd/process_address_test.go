package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rds-go/rds/internal/cli/clitest"
)

// namespaces counts those of this process.
var namespaces atomic.Int32

// namespace is a network namespace of the test's own, with an address on an interface.
func namespace(t *testing.T, address string) (name string, ip func(args ...string)) {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil || os.Getuid() != 0 {
		t.Skip("needs root and the program ip (iproute2), to make a network namespace")
	}
	name = fmt.Sprintf("rdsd-test-%d-%d", os.Getpid(), namespaces.Add(1))
	if out, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil {
		t.Skipf("needs CAP_SYS_ADMIN, to make a network namespace: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", name).Run() })
	ip = func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", append([]string{"-n", name}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %s", args, out)
		}
	}
	ip("link", "set", "lo", "up")
	ip("link", "add", "a0", "type", "veth", "peer", "name", "b0")
	ip("link", "set", "a0", "up")
	ip("address", "add", address, "dev", "a0")
	return name, ip
}

// A host that loses an address of rdsd, as when a lease ends, is one that peers cannot reach.
func TestDaemonTellsOfAddressThatHasGone(t *testing.T) {
	t.Parallel()
	name, ip := namespace(t, "10.77.5.1/24")
	d := clitest.StartEnv(t, []string{"RDS_SOCKET=none", "RDS_CONTROL=none"}, "ip", "netns", "exec", name, bin.Path("rdsd"), "--listen", "10.77.5.1,127.0.0.1")
	if line := d.Line(d.Stderr, "listening"); !strings.Contains(line, `"tcp_port": 16385, "xrc_port": 18634`) {
		t.Errorf("not both ports: %s", line)
	}
	d.Line(d.Stderr, "ready")
	ip("address", "del", "10.77.5.1/24", "dev", "a0")
	if line := d.Line(d.Stderr, "has gone from the host"); !strings.Contains(line, "10.77.5.1") || !strings.Contains(line, "WARN") {
		t.Errorf("%s", line)
	}
	ip("address", "add", "10.77.5.1/24", "dev", "a0")
	if line := d.Line(d.Stderr, "is back"); !strings.Contains(line, "10.77.5.1") {
		t.Errorf("%s", line)
	}
	terminate(t, d)
}
