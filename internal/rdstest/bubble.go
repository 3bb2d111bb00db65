package rdstest

import (
	"testing"
	"time"

	"github.com/rds-go/rds/internal/memnet"
)

// Bubble runs a test, beside other tests, in a bubble of testing/synctest, where time is virtual
// and the sockets of transports are those of memnet.Of. Everything that the test starts has to end
// before f returns, or in a function of t.Cleanup.
func Bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	memnet.Bubble(t, memnet.Options{}, func(t *testing.T) {
		// A bubble begins in 2000. A sequence number of that time does not look like one that a
		// node has taken from its clock: see conn.Inbound.
		<-time.After(20 * 365 * 24 * time.Hour)
		f(t)
	})
}
