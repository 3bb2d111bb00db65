//go:build live

package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

// An application sends to 3,000 hosts that cannot be reached. The sends do not block, the round trips of a
// neighbour are what they were, and the daemon dials no more often than its pace.
func TestDeadPeersCostOthersLittle(t *testing.T) {
	clitest.NeedLoopback(t)
	dir := rdstest.Dir(t)
	at := func(host int) string { return fmt.Sprintf("127.22.70.%d", host) }
	open := func(host int) *rds.Client {
		path := filepath.Join(dir, strconv.Itoa(host))
		d := clitest.StartEnv(t, []string{"RDS_SOCKET=none", "RDS_CONTROL=none"}, bin.Path("rdsd"),
			"--listen", at(host), "--port", "17270", "--socket", path, "--control", "none")
		d.Line(d.Stderr, "ready")
		return clientOf(t, path)
	}
	c := open(1)
	neighbour, echo, sender := bind(t, c, at(1)+":4000"), bind(t, open(2), at(2)+":4000"), bind(t, c, at(1)+":4001")
	go func() {
		for {
			m, err := echo.Recv(t.Context())
			if err != nil {
				return
			}
			_ = echo.Send(t.Context(), m.From, m.Data)
			m.Release()
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), rdstest.Patience)
	defer cancel()
	const rounds = 200
	trips := func() time.Duration {
		begin := time.Now()
		for range rounds {
			must(t, neighbour.Send(ctx, echo.LocalAddrPort(), []byte("ping")))
			m, err := neighbour.Recv(ctx)
			must(t, err)
			m.Release()
		}
		return time.Since(begin) / rounds
	}
	trips() // makes the connection
	before := trips()
	begin := time.Now()
	for i := range 3000 {
		must(t, sender.TrySend(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 66, byte(i >> 8), byte(i)}), 4000), []byte("anybody?")))
	}
	sent := time.Since(begin)
	best := trips()
	for range 4 {
		best = min(best, trips())
	}
	from, began := connects(t), time.Now()
	for time.Since(began) < 3*time.Second {
		best = min(best, trips())
	}
	rate := float64(connects(t)-from) / time.Since(began).Seconds()
	t.Logf("sends %v, round trips %v before, %v at best among them, %.0f connects a second", sent, before, best, rate)
	if best > max(2*before, before+2*time.Millisecond) {
		t.Errorf("round trips of %v became %v", before, best)
	}
	if rate > 1000 { // two transports are tried for each dial
		t.Errorf("%.0f connects a second", rate)
	}
}

// connects is how many connections the hosts of this network namespace have begun.
func connects(t *testing.T) (n int) {
	b, err := os.ReadFile("/proc/net/snmp")
	must(t, err)
	var names []string
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); f[0] != "Tcp:" {
			continue
		} else if names == nil {
			names = f
		} else {
			for i, name := range names {
				if name == "ActiveOpens" {
					n, err = strconv.Atoi(f[i])
					must(t, err)
				}
			}
		}
	}
	return n
}
