//go:build live

package daemon

import (
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
)

// A session that has queued as much for a peer that is down as it may is not rung for messages of
// RDS. Its posts to queues of XRC are taken all the same, each when the event loop has come to rest.
func TestPostsOfXRCAreTakenOverTheBudgetOfRDS(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	near, far := newXRCHost(t, l), newXRCHost(t, l)
	c := dialed(t, near.path)
	s := bound(t, c, rdstest.AddrOf(near.here, 0))
	x := budget(lastSession(near.svc), 1<<20)
	pair := verbsPairOf(t, c, far)
	floodBudget(t, x, s, rdstest.AddrOf(rdstest.NewAddr(), 9))
	for range 20 {
		rdstest.Eventually(t, "the session to be ready for a ring", x.sleeps.IsSet)
		pair.exchange(t)
	}
	if !x.overBudget.Load() {
		t.Error("the session is within its budget")
	}
}
