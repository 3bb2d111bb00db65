//go:build live

package main

import (
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"testing"

	"github.com/rds-go/rds/internal/cli/clitest"
)

// start runs a server on any port of loopback and returns the flags that say
// where it is.
func start(t *testing.T, args ...string) (*clitest.Process, []string) {
	t.Helper()
	p := clitest.Start(t, bin.Path("rdsverbs"), append(args, "-a", "127.0.0.1", "-p", "0")...)
	line := p.Line(p.Stdout, "listening")
	at := netip.MustParseAddrPort(regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(line))
	return p, []string{"-a", at.Addr().String(), "-p", fmt.Sprint(at.Port())}
}

// verbs runs a command to its end, with the flags that say where its server is.
func verbs(t *testing.T, at []string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	return clitest.Run(t, bin.Path("rdsverbs"), append(args, at...)...)
}

// interrupt stops a server, which has to end without an error.
func interrupt(t *testing.T, server *clitest.Process) {
	t.Helper()
	server.Signal(os.Interrupt)
	if status := server.Wait(); status != 0 {
		t.Errorf("server: status %d\n%s%s", status, server.Stdout, server.Stderr)
	}
}
