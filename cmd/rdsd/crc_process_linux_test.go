//go:build live

package main

import (
	"context"
	"net/netip"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/netlab"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

// By default a connection to another host has a CRC, also to a container of this machine,
// and one to an address of this host has none; rdsinfo says which.
func TestCRCIsOnBetweenHosts(t *testing.T) {
	t.Parallel()
	here, there := netlab.Pair(t)
	here.Run("ip", "address", "add", "10.99.0.3/16", "dev", "eth0")
	tmp := rdstest.Dir(t)
	attach, ctl := filepath.Join(tmp, "a.sock"), filepath.Join(tmp, "c.sock")
	daemon := func(host *netlab.Host, address string, args ...string) {
		d := daemonOn(t, host, append([]string{"--listen", address, "--wire", "xrc"}, args...)...)
		d.Line(d.Stderr, "ready")
	}
	daemon(here, "10.99.0.1", "--socket", attach, "--control", ctl)
	daemon(there, "10.99.0.2")
	daemon(here, "10.99.0.3")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := bind(t, clientOf(t, attach), "10.99.0.1:4000")
	for _, to := range []string{"10.99.0.2:4000", "10.99.0.3:4000"} {
		o := rds.Outgoing{To: netip.MustParseAddrPort(to), Data: []byte("to a port of nobody"), Notify: true}
		must(t, s.SendMessage(ctx, &o))
		if m, err := s.Recv(ctx); err != nil || m.Status != rds.StatusRefused {
			t.Fatalf("%v, %v", &m, err)
		}
	}
	status, out, _ := clitest.Run(t, bin.Path("rdsinfo"), "--control", ctl, "-n")
	for _, want := range []string{`10\.99\.0\.2 .* xrc +on\n`, `10\.99\.0\.3 .* xrc +off\n`} {
		if status != 0 || !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("status %d, want %s in\n%s", status, want, out)
		}
	}
}
