//go:build live

package main

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/xrc/objects"
)

// Two processes, each a host, with one connection whatever is in them.
func TestXsrqProcessesShareAConnection(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		serve, ping string
		want        []string
	}{
		{"-n 3", "-n 3 -m 5 -C 20", []string{
			"3 queues, 5 initiators\n", "queue 2: 100 pings, ", "5 senders with 3 queues, 64 bytes: 300 pings, ",
			"connections: 1 TCP; RC takes 15, XRC on cards 8\n"}},
		{"-n 3 --receives 1 -S 64k", "-n 3 -m 2 -C 20 -S 64k", []string{
			"3 queues, 2 initiators\n", "2 senders with 3 queues, 65536 bytes: 120 pings, ",
			"connections: 1 TCP; RC takes 6, XRC on cards 5\n"}},
	} {
		server, at := startXsrq(t, strings.Fields(c.serve)...)
		for range 2 { // one life of the client after the other
			status, stdout, stderr := verbs(t, at, append([]string{"xsrq", "ping"}, strings.Fields(c.ping)...)...)
			if status != 0 || stderr != "" {
				t.Errorf("status %d\n%s%s", status, stdout, stderr)
			}
			for _, want := range c.want {
				if !strings.Contains(stdout, want) {
					t.Errorf("no %q in\n%s", want, stdout)
				}
			}
		}
		server.Signal(os.Interrupt)
		if status := server.Wait(); status != 0 || strings.Count(server.Stdout.String(), "0 dropped\n") != 3 {
			t.Errorf("server: status %d\n%s%s", status, server.Stdout, server.Stderr)
		}
	}
}

// The daemon of a server that ends costs its client no more than --timeout.
func TestXsrqServersDaemonEnds(t *testing.T) {
	t.Parallel()
	h := newXsrqHosts(t)
	h.serve(t)
	client := clitest.Start(t, bin.Path("rdsverbs"), append([]string{"xsrq", "ping", "-C", "1g", "-W", "5"}, h.at()...)...)
	client.Line(client.Stdout, "connected")
	if err := h.server.Close(); err != nil {
		t.Error(err)
	}
	if status := client.Wait(); status != 1 {
		t.Errorf("status %d\n%s%s", status, client.Stdout, client.Stderr)
	}
}

// A client that is killed leaves nothing stopped.
func TestXsrqClientIsKilled(t *testing.T) {
	t.Parallel()
	server, at := startXsrq(t, "-n", "2", "--receives", "2")
	client := clitest.Start(t, bin.Path("rdsverbs"), append([]string{"xsrq", "ping", "-n", "2", "--stop", "1", "-C", "1m"}, at...)...)
	client.Line(client.Stdout, "connected")
	client.Signal(os.Kill)
	client.Wait()
	if status, stdout, stderr := verbs(t, at, "xsrq", "ping", "-n", "2", "-C", "20"); status != 0 {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
	interrupt(t, server)
}

// Clients come one after the other, as processes, and every second one is killed, at any moment:
// each is served at once, though nobody reads events of the server, which in the end has no
// targets but that of RDS. Beyond 32 clients the server once refused all. A process of a test
// lives for a minute, which bounds how many clients there are. RDS_LONG=1 runs 4,000 in ten.
func TestXsrqManyClientsInARow(t *testing.T) {
	t.Parallel()
	clients := 80
	if os.Getenv("RDS_LONG") != "" {
		clients = 4000
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	h := newXsrqHosts(t)
	server, at := h.serve(t), h.at()
	for i := range clients {
		if i%2 == 0 {
			client := clitest.Start(t, bin.Path("rdsverbs"), append([]string{"xsrq", "ping", "-n", "1", "-C", "1g"}, at...)...)
			if rnd.IntN(2) == 0 {
				client.Line(client.Stdout, "connected")
			}
			client.Signal(os.Kill)
			client.Wait()
			continue
		}
		if status, stdout, stderr := verbs(t, at, "xsrq", "ping", "-n", "1", "-C", "1"); status != 0 {
			t.Fatalf("client %d: status %d\n%s%s", i, status, stdout, stderr)
		}
	}
	rdstest.Eventually(t, "nothing to be left", func() bool {
		for _, n := range []*node.Node{h.server, h.client} {
			now := n.Xrc.Objects().Stats()
			if now.Initiators != 1 || now.TotalTargets()-now.Targets[objects.StateError] != 1 { // those in error are reaped; the others are of RDS
				return false
			}
		}
		return true
	})
	interrupt(t, server)
}

func TestXsrqFailures(t *testing.T) {
	t.Parallel()
	server, at := startXsrq(t, "-n", "2", "-S", "64")
	nobody := append(at[2:], "-W", "100ms")
	for _, c := range []struct {
		args   string
		at     []string
		status int
		want   string
	}{
		{"ping -n 3", at, 1, "service 3: xrc: service: not-found"},
		{"ping -n 2 -S 65", at, 1, "ping to queue"},
		{"ping -a " + rdstest.NewAddr().String(), nobody, 1, errTimeout.Error()},
		{"ping -a 127.0.0.1 -I 127.0.0.1", nil, 2, "the server is this host"},
		{"ping", nil, 2, "whose --connect address?"},
		{"ping -a 127.0.0.1 -n 257", nil, 2, "257 queues are not in 1..256"},
		{"ping -a 127.0.0.1 -m 0", nil, 2, "0 senders are not in 1..128"},
		{"ping -a 127.0.0.1 -S 31", nil, 2, "size 31 is not in 48..65536"},
		{"ping -a 127.0.0.1 -n 4 --stop 4", nil, 2, "--stop 4 leaves none of 4 queues"},
		{"ping -a 127.0.0.1 --stop 1 -C 1", nil, 2, "--count 1 is too few"},
		{"ping -a 127.0.0.1 -n 256 -S 64k", nil, 2, "are more than"},
		{"ping -a 127.0.0.1 -W 0", nil, 2, "--timeout is not positive"},
		{"serve --socket /nowhere", nil, 2, "/nowhere"},
		{"ping -a 127.0.0.1 -I 127.0.0.2 --socket /nowhere", nil, 2, "/nowhere"},
		{"serve --receives 0", nil, 2, "--receives 0 is not in"},
		{"serve --service 9223372036854775807", nil, 2, "service ids end at"},
		{"now", nil, 2, "unknown command"},
	} {
		status, _, stderr := verbs(t, c.at, append([]string{"xsrq"}, strings.Fields(c.args)...)...)
		if status != c.status || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: status %d: %s", c.args, status, stderr)
		}
	}
	interrupt(t, server)
}
