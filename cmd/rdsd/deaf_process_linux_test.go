//go:build live

package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/cli/clitest"
)

// Applications of another user that do not read what the daemon answers, so that their sockets take nothing more, hold up
// no upgrade: all others are served within a moment.
func TestDeafApplicationsHoldUpNoUpgrade(t *testing.T) {
	t.Parallel()
	needRoot(t)
	u := upgradesOf(t, "xrc")
	must(t, os.Chmod(u.dir, 0o755))
	u.load()
	u.traffic()
	s := u.sides[0]
	p := clitest.StartAs(t, as(12001), []string{fmt.Sprintf("%s=%s", deafEnv, s.path)}, "/proc/self/exe")
	t.Log(p.Line(p.Stdout, "full"))
	began := time.Now()
	if gap := u.upgrade(s); gap > 4*time.Second {
		t.Errorf("nothing was received for %v", gap)
	}
	if n := strings.Count(s.daemon.Stderr.String(), `"uid": 12001`); n > 0 { // they are told beside
		t.Errorf("%d of them were taken over after %v", n, time.Since(began))
	}
	u.judge()
}
