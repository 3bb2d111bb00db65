package main

import (
	"context"
	"net/netip"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/rds"
)

// By default a connection to another host has a CRC, also to a container of this machine,
// and one to an address of this host has none; rdsinfo says which.
func TestCRCIsOnBetweenHosts(t *testing.T) {
	t.Parallel()
	here, ip := namespace(t, "10.77.6.1/24")
	there := here + "-peer"
	if out, err := exec.Command("ip", "netns", "add", there).CombinedOutput(); err != nil {
		t.Fatalf("ip netns add: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", there).Run() })
	ip("address", "add", "10.77.6.3/24", "dev", "a0")
	ip("link", "set", "b0", "netns", there)
	for _, args := range [][]string{{"address", "add", "10.77.6.2/24", "dev", "b0"}, {"link", "set", "b0", "up"}} {
		if out, err := exec.Command("ip", append([]string{"-n", there}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %s", args, out)
		}
	}
	tmp := dir(t)
	attach, ctl := filepath.Join(tmp, "a.sock"), filepath.Join(tmp, "c.sock")
	daemon := func(ns, address string, args ...string) {
		args = append([]string{"netns", "exec", ns, bin.Path("rdsd"), "--listen", address, "--wire", "xrc"}, args...)
		d := clitest.StartEnv(t, []string{"RDS_SOCKET=none", "RDS_CONTROL=none"}, "ip", args...)
		d.Line(d.Stderr, "ready")
	}
	daemon(here, "10.77.6.1", "--socket", attach, "--control", ctl)
	daemon(there, "10.77.6.2")
	daemon(here, "10.77.6.3")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := bind(t, clientOf(t, attach), "10.77.6.1:4000")
	for _, to := range []string{"10.77.6.2:4000", "10.77.6.3:4000"} {
		o := rds.Outgoing{To: netip.MustParseAddrPort(to), Data: []byte("to a port of nobody"), Notify: true}
		if err := s.SendMessage(ctx, &o); err != nil {
			t.Fatal(err)
		}
		if m, err := s.Recv(ctx); err != nil || m.Status != rds.StatusRefused {
			t.Fatalf("%v, %v", &m, err)
		}
	}
	status, out, _ := clitest.Run(t, bin.Path("rdsinfo"), "--control", ctl, "-n")
	for _, want := range []string{`10\.77\.6\.2 .* xrc +on\n`, `10\.77\.6\.3 .* xrc +off\n`} {
		if status != 0 || !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("status %d, want %s in\n%s", status, want, out)
		}
	}
}
