package rdstest

import (
	"net/netip"
	"os"
	"testing"

	"github.com/rds-go/rds/rds/info"
	"github.com/rds-go/rds/transport"
)

type reporter interface{ Info() (info.Report, error) }

// Report is a node's report.
func Report(t testing.TB, n reporter) info.Report {
	t.Helper()
	report, err := n.Info()
	Must(t, err)
	return report
}

// TransportTo is what serves a peer, as a node reports it, and whether it does now.
func TransportTo(t testing.TB, n reporter, remote netip.Addr) (name string, connected bool) {
	t.Helper()
	for _, c := range Report(t, n).Connections {
		if c.Remote == remote {
			return c.Transport, c.Connected
		}
	}
	return "", false
}

// WaitOf is the first wait for this cause, zero if there is none.
func WaitOf(t testing.TB, n reporter, cause string) info.Wait {
	t.Helper()
	for _, w := range Report(t, n).Waits {
		if w.Cause == cause {
			return w
		}
	}
	return info.Wait{}
}

// SharesOf is what the user of this process has of a service.
func SharesOf(svc interface{ Users() []info.User }) info.User {
	for _, u := range svc.Users() {
		if u.UID == uint32(os.Getuid()) {
			return u
		}
	}
	return info.User{}
}

// Counter reads one of a node's counters.
func Counter(t testing.TB, n interface{ List() []transport.Counter }, name string) uint64 {
	t.Helper()
	for _, c := range n.List() {
		if c.Name == name {
			return c.Value
		}
	}
	t.Fatalf("no counter %q", name)
	return 0
}
