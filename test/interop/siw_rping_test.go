//go:build interop

package interop

import (
	"strconv"
	"strings"
	"testing"
)

// rpingRun is one run of rping: the server reads what the client says it has,
// writes it back, and the client compares.
type rpingRun struct {
	count, size int
	extra       []string // further arguments of ours, which Linux's are not given
}

func (r rpingRun) argv(v verbs, mode string, server verbs) []string {
	argv := append(v.rping[:len(v.rping):len(v.rping)], mode,
		"-a", server.addr.String(), "-p", verbsPort,
		"-C", strconv.Itoa(r.count), "-S", strconv.Itoa(r.size))
	if v.ours {
		argv = append(argv, r.extra...)
	}
	return argv
}

// startRpingServer starts an rping server and waits until it listens.
func (v verbs) startRpingServer(t *testing.T, r rpingRun) *program {
	t.Helper()
	// With -d it says when it listens, and each operation.
	s := v.exec(t, append(r.argv(v, "-s", v), "-d")...)
	s.expect(t, `rdma_listen`)
	return s
}

// testRping has a client ping a server: both end well, and the client has found
// in its memory, each time, what it sent.
func testRping(t *testing.T, client, server verbs, r rpingRun) {
	t.Helper()
	s := server.startRpingServer(t, r)
	// With -v it prints each answer and with -V it verifies it.
	out := client.run(t, append(r.argv(client, "-c", server), "-v", "-V")...)
	if n := strings.Count(out, "ping data: rdma-ping-"); n != r.count {
		t.Errorf("%d answers, want %d", n, r.count)
	}
	s.succeed(t)
}
