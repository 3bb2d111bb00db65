//go:build interop

package interop

import (
	"regexp"
	"strconv"
	"testing"
)

// perftest is one run of a program of Debian's package perftest.
type perftest struct {
	program     string // on the client; the server's is the same, or ours
	size, count int
}

// testPerftest runs the program between two guests and checks that the client
// reports what it was to do. How the server ends says nothing: its last message
// may cross the client's disconnect, which it takes for a failure.
func testPerftest(t *testing.T, client, server verbs, p perftest) {
	t.Helper()
	s := server.newServer()
	argv := []string{p.program, "-R", "-F", "-p", s.port(), "-s", strconv.Itoa(p.size), "-n", strconv.Itoa(p.count)}
	s.start(t, argv...)
	p.check(t, client.run(t, append(argv, s.at.Addr().String())...))
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
