//go:build live

package xrc

import (
	"context"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
)

// A daemon ends right behind the processes that it served, which were killed. The initiators that were connected to their
// targets hear of the end at once, and do not wait for a connection to come back.
func TestEndOfADaemonBehindItsProcessesIsTold(t *testing.T) {
	t.Parallel()
	l := rdstest.NewLab(t)
	near := newHost(t, &l)
	for k := range 20 {
		far := newHost(t, &l)
		f := domainFile(t)
		a, b := startWorker(t, far, f, 7), startWorker(t, far, f, 8)
		p := newProcess(t, near, nil, 1, 128)
		want := map[uint32]bool{p.connect(t, far.addr, 7).Number(): true, p.connect(t, far.addr, 8).Number(): true}
		a.kill()
		b.kill()
		must(t, far.svc.Close())
		must(t, far.node.Close())
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		for len(want) > 0 {
			e, err := p.NextEvent(ctx)
			if err != nil {
				t.Fatalf("round %d: %v, and %d initiators have heard of nothing", k, err, len(want))
			}
			delete(want, e.Object.Number)
			_ = p.Ack(e)
		}
		cancel()
	}
}
