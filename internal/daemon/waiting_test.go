//go:build live

package daemon

import (
	"context"
	"sync"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
)

// Messages for an application's socket move from the daemon's queue to the application's ring
// while others look at how many wait. Each counts once all the time: with less than there is
// the port of a full socket was free for a moment, and a sender that was blocked went on.
func TestWhatWaitsForAnApplicationCountsOnce(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	_, svc, path := served(t, l, config.Node{}, config.Service{})
	from, to := l.bindOne(config.Node{}), bound(t, dialed(t, path), rdstest.AddrOf(rdstest.NewAddr(), 4000))
	rdstest.Must(t, to.SetReadBuffer(64<<20))
	a := firstSocket(lastSession(svc))
	ctx, cancel := context.WithCancel(context.Background())
	var sender sync.WaitGroup
	sender.Go(func() {
		for data := make([]byte, 1); from.Send(ctx, to.LocalAddrPort(), data) == nil; {
		}
	})
	for b, n := int64(0), int64(0); n < 100_000 && !t.Failed(); {
		bytes, count := a.Waiting()
		if bytes < b || count < n {
			t.Errorf("%d messages of %d bytes wait, and before that %d of %d", count, bytes, n, b)
		}
		b, n = bytes, count
	}
	cancel()
	sender.Wait()
}
