//go:build live

package iwarp

import (
	"sync"
	"testing"
	"time"
)

// Ending a queue pair whose peer does not read flushes at once, whatever the
// transmitter is doing. A transmitter that found the socket full in the moment
// of the failure once left the end to an event that never came.
func TestFailWhilePeerDoesNotRead(t *testing.T) {
	t.Parallel()
	d := openDevice(t, Config{EventLoops: 1, CloseTimeout: time.Minute, SendBuffer: 64 << 10})
	for name, stop := range map[string]func(q *QP){
		"fail":  func(q *QP) { q.Fail() },
		"close": func(q *QP) { _ = q.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := range 100 {
				e := newEnd(t, d, QPConfig{})
				p := openRaw(t, e, false, i%2 == 0)
				m := e.reg(1<<20, 0)
				var wg sync.WaitGroup
				wg.Go(func() { e.flood(m, 16) })
				wg.Go(func() {
					for range i {
						e.qp.State() // a little later each time
					}
					stop(e.qp)
				})
				wg.Wait()
				select {
				case <-e.qp.Done():
				case <-time.After(10 * time.Second):
					t.Fatalf("run %d: not flushed", i)
				}
				_ = e.qp.Close()
				p.abort()
			}
		})
	}
}
