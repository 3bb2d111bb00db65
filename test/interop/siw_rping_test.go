//go:build interop

package interop

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/rds-go/rds/test/interop/peer"
)

// maxRping is the largest size that Debian's rping takes.
const maxRping = 65535

// rpingRun is one run of rping: the server reads what the client says it has,
// writes it back, and the client compares.
type rpingRun struct {
	count, size int
	crc         bool // CRC that our side asks for; siw takes what we say, and by itself does without
}

// argv is the command line of one end.
func (r rpingRun) argv(v verbs, client bool, s *verbsServer) []string {
	argv := []string{"rping", "-s"}
	switch {
	case v.ours && client:
		argv = []string{v.rdsverbs, "rping", "client", "--crc", onOff(r.crc)}
	case v.ours:
		argv = []string{v.rdsverbs, "rping", "server", "--crc", onOff(r.crc)}
	case client:
		argv = []string{"rping", "-c"}
	}
	if client && r.shown() {
		argv = append(argv, "-v")
	}
	return append(argv, "-a", s.at.Addr().String(), "-p", s.port(),
		"-C", strconv.Itoa(r.count), "-S", strconv.Itoa(r.size), "-V")
}

// shown tells whether the client prints what came back, which takes too long if
// it is much.
func (r rpingRun) shown() bool { return r.count*r.size <= 100_000 }

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// startRpingServer starts an rping server and waits until it listens.
func (v verbs) startRpingServer(t *testing.T, r rpingRun) *verbsServer {
	t.Helper()
	s := v.newServer()
	s.start(t, r.argv(v, false, s)...)
	return s
}

// rpingEnded waits until a run of rping ends, which it must well, and returns
// its output.
func (v verbs) rpingEnded(t *testing.T, g *program) string {
	t.Helper()
	r := g.wait(t)
	if r.Status != 0 && (v.ours || !endedTwice(r)) {
		t.Fatalf("%s: %s", g.name, r.State)
	}
	return r.Output
}

// endedTwice tells whether Debian's rping had ended well when the thread that
// waits for events of its connection found their channel closed by main, and
// made 255 of the status 0. A failure is printed by main before it closes the
// channel. Versions of rping with an eventfd stop that thread first.
func endedTwice(r peer.ExecResult) bool {
	return r.Status == 255 && strings.Contains(r.Output, " DISCONNECT EVENT...\n") &&
		strings.HasSuffix(r.Output, "rdma_get_cm_event: Bad file descriptor\n") &&
		!strings.Contains(r.Output, "failed") && !strings.Contains(r.Output, "error")
}

// testRping has a client ping a server: both end well, and the client has found
// in its memory, each time, what it sent. Each compares what it gets with what
// must come, and fails if it differs.
func testRping(t *testing.T, client, server verbs, r rpingRun) {
	t.Helper()
	s := server.startRpingServer(t, r)
	outputs := map[bool]string{client.ours: client.rpingEnded(t, client.exec(t, r.argv(client, true, s)...))}
	if got := strings.Count(outputs[client.ours], "ping data: rdma-ping-"); r.shown() && got != r.count {
		t.Errorf("%d answers, want %d", got, r.count)
	}
	outputs[server.ours] = server.rpingEnded(t, s.program)
	for _, want := range []string{fmt.Sprintf(" CRC %s,", onOff(r.crc)), fmt.Sprintf(": %d pings of %d bytes", r.count, r.size)} {
		if out, ok := outputs[true]; ok && !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

// testRpings runs the sizes, with and without CRC, with us on either side.
func testRpings(t *testing.T, ours, siw verbs) {
	for name, ends := range map[string][2]verbs{"our client": {ours, siw}, "our server": {siw, ours}} {
		for _, crc := range []bool{false, true} {
			for _, size := range []int{64, 1000, 4096, maxRping} {
				t.Run(fmt.Sprintf("%s/crc %s/%d", name, onOff(crc), size), func(t *testing.T) {
					testRping(t, ends[0], ends[1], rpingRun{count: 100, size: size, crc: crc})
				})
			}
		}
	}
}

func TestEndsOfRping(t *testing.T) {
	const end = "server DISCONNECT EVENT...\nwait for RDMA_READ_ADV state 10\n"
	const closed = "rdma_get_cm_event: Bad file descriptor\n"
	for _, c := range []struct {
		status int
		output string
		well   bool
	}{
		{255, end + closed, true},
		{255, end, false},
		{255, closed, false},
		{1, end + closed, false},
		{255, "server DISCONNECT EVENT...\ndata mismatch!\nrping client failed: -1\n" + closed, false},
		{255, "cq completion failed status 4\nwait for RDMA_READ_ADV state 11\nrping server failed: -1\n" + end + closed, false},
	} {
		if got := endedTwice(peer.ExecResult{Status: c.status, Output: c.output}); got != c.well {
			t.Errorf("status %d, %q: %v", c.status, c.output, got)
		}
	}
}
