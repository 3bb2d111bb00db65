//go:build live

package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/rds"
)

// An application is stopped while its messages are delivered, more than its completion ring
// has room for, and its daemon is upgraded twice before it goes on. The application then
// receives the fate of each message, once and in order.
func TestUpgradeOfAStoppedSender(t *testing.T) {
	t.Parallel()
	u := upgradesOf(t, "xrc")
	const n = 6000 // the completion ring has 4096 entries
	host := u.sides[0].addr.Addr().As4()
	host[3] = 77
	to := netip.AddrPortFrom(netip.AddrFrom4(host), 4000)
	from := netip.AddrPortFrom(u.sides[0].addr.Addr(), 4020)
	app := clitest.StartEnv(t, []string{fatesEnv + "=" + fmt.Sprintln(u.sides[0].path, from, to, n)}, os.Args[0])
	app.Line(app.Stdout, "sent")
	app.Signal(syscall.SIGSTOP)
	sock := bind(t, nodeOf(t, rds.Config{Port: uint16(u.port), Wire: rds.WireXRC}), to.String())
	ctx, cancel := context.WithTimeout(u.ctx, 30*time.Second)
	defer cancel()
	for i := range n {
		m, err := sock.Recv(ctx)
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		m.Release()
	}
	for range 2 {
		u.takeOver(u.sides[0])
	}
	app.Signal(syscall.SIGCONT)
	for i := range n {
		if line := app.Line(app.Stdout, "fate "); strings.TrimSpace(line) != fmt.Sprintf("fate %d %v", i, rds.StatusSuccess) {
			t.Fatalf("fate %d: %s", i, line)
		}
	}
}
