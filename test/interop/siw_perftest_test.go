//go:build interop

package interop

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// perftest is one run of a program of Debian's package perftest.
type perftest struct {
	program     string
	size, count int
	args        []string // more of the client's
	ours        []string // more of our server's
	received    int      // messages that our server must have
}

// perftests are what the package has for an RDMA device, with us as the server
// as far as package perfserver tells.
var perftests = []perftest{
	{program: "ib_write_bw", size: 65536, count: 100},
	{program: "ib_read_bw", size: 65536, count: 100, args: []string{"-o", "16"}},
	{program: "ib_read_lat", size: 8, count: 100},
	// More messages than receives: the client goes on by credits.
	{program: "ib_send_bw", size: 4096, count: 500, args: []string{"-r", "64"}, ours: []string{"-r", "64", "-credits"}, received: 500},
	{program: "ib_send_lat", size: 64, count: 100, ours: []string{"-echo"}, received: 100},
	{program: "ib_write_lat", size: 8, count: 100},
}

var perfserverOnce = sync.OnceValues(func() (string, error) { return goTool("perfserver", "build", "./perfserver") })

// testPerftest runs the program between two guests and checks that the client
// reports what it was to do. How the server ends says nothing: its last message
// may cross the client's disconnect, which it takes for a failure.
func testPerftest(t *testing.T, client, server verbs, p perftest) {
	t.Helper()
	s := server.newServer()
	argv := append([]string{p.program, "-R", "-F", "-p", s.port(), "-s", strconv.Itoa(p.size), "-n", strconv.Itoa(p.count)}, p.args...)
	s.start(t, argv...)
	p.check(t, client.run(t, append(argv, s.at.Addr().String())...))
}

// testPerfserver runs the program as a client of our server.
func testPerfserver(t *testing.T, client, server verbs, p perftest, crc bool) {
	t.Helper()
	if p.program == "ib_write_lat" {
		t.Skip("not possible with a server of ours: the octets arrive in memory, and no completion tells of them")
	}
	program, err := perfserverOnce()
	must(t, err)
	s := server.newServer()
	s.start(t, append([]string{program, "-addr", s.at.String(), "-s", strconv.Itoa(p.size), "-crc=" + strconv.FormatBool(crc)}, p.ours...)...)
	p.check(t, client.run(t, append(append([]string{
		p.program, "-R", "-F", "-p", s.port(), "-s", strconv.Itoa(p.size), "-n", strconv.Itoa(p.count),
	}, p.args...), s.at.Addr().String())...))
	out := s.succeed(t)
	for want, count := range map[string]int{fmt.Sprintf("CRC %v\n", crc): 2, fmt.Sprintf("received %d\n", p.received): 1} {
		if strings.Count(out, want) != count {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

// perftestRow is the line of results: size, iterations and then what the
// program measures.
var perftestRow = regexp.MustCompile(`(?m)^ *(\d+) +(\d+) +([0-9.]+) .*$`)

func (p perftest) check(t *testing.T, out string) {
	t.Helper()
	row := perftestRow.FindStringSubmatch(out)
	if row == nil || row[1] != strconv.Itoa(p.size) || row[2] != strconv.Itoa(p.count) {
		t.Fatalf("no results for %d times %d octets in\n%s", p.count, p.size, out)
	}
	if v, err := strconv.ParseFloat(row[3], 64); err != nil || v <= 0 {
		t.Errorf("a result of %s in\n%s", row[3], out)
	}
}
