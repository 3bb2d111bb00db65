package socket

import (
	"sync"
	"sync/atomic"
	"testing"
)

// The number of those who wait, which wakers look at first, is right whenever the list
// is. It once grew a moment later: who was woken before his own was counted took away
// another's, who was then not there for wakers.
func TestWaitersAreCountedAsTheyAreListed(t *testing.T) {
	t.Parallel()
	var (
		q    WaitQueue
		wg   sync.WaitGroup
		stop atomic.Bool
	)
	for range 4 {
		wg.Go(func() {
			for !stop.Load() {
				q.Done(q.Add())
			}
		})
	}
	for range 500_000 {
		q.Mu.Lock()
		listed := int32(0)
		for w := q.Head; w != nil; w = w.next {
			listed++
		}
		counted := q.N.Load()
		q.Mu.Unlock()
		if counted != listed {
			t.Errorf("%d waiters are counted, and %d are there", counted, listed)
			break
		}
		q.Wake(1)
	}
	stop.Store(true)
	wg.Wait()
}
