//go:build live

package daemon

import (
	"testing"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
)

// An application that dies while its calls are answered is gone like any other: its
// pages are given back, which are left to it only when the service ends.
func TestPagesOfWhoDiesAmongCalls(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	_, svc, path := served(t, l, config.Node{}, config.Service{})
	here := rdstest.NewAddr()
	broken := 0
	for range 20 {
		e := intrude(t, path)
		e.bind(rdstest.AddrOf(here, 0))
		x := lastSession(svc)
		for id := range uint64(200) {
			rdstest.Must(t, e.conn.Send(&ipc.Request{ID: 1<<32 + id, Op: ipc.CallResolve, Local: here, Remote: here}))
		}
		e.leave()
		select {
		case <-x.done:
		case <-rdstest.Background(t).Done():
			t.Fatal("the session does not end")
		}
		if x.seg.spare.Load() {
			broken++
		}
	}
	if broken > 0 {
		t.Errorf("%d of 20 keep their pages", broken)
	}
}
