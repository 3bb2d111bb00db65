//go:build live

package daemon

import (
	"runtime"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/ipc"
)

// Calls that wait for an event, and whose answers nobody reads, cost the daemon no more than other calls:
// one waits, and the others are refused in the order in which they are read.
func TestFloodOfEventCalls(t *testing.T) {
	l := newLab(t)
	h := newXRCHost(t, l)
	x := scheme(t, h.path)
	before := runtime.NumGoroutine()
	most := 0
	_ = x.sock.SetWriteDeadline(time.Now().Add(time.Second))
	for i := range 50_000 {
		if err := x.conn.Send(&ipc.Request{ID: uint64(1000 + i), Op: ipc.CallXRC, XRC: &ipc.XRCCall{Op: ipc.XRCEvent}}); err != nil {
			break // the daemon reads no more of them than it can answer
		}
		if i%100 == 0 {
			most = max(most, runtime.NumGoroutine()-before)
		}
	}
	if most > maxBeside+20 {
		t.Errorf("%d goroutines", most)
	}
	other := scheme(t, h.path)
	if r := other.xrc(&ipc.XRCCall{Op: ipc.XRCAllocPD}); r.Error != "" {
		t.Errorf("another application: %s", r.Error)
	}
}
