//go:build !live

package daemon

import (
	"testing"
	"unsafe"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/work"
)

// idleWorker is a queue without records.
type idleWorker struct{ looks int }

func (w *idleWorker) takeRecords(*batch, int) (n int, more bool, err error) {
	w.looks++
	return 0, false, nil
}

// A turn takes a bounded number of posts, and looks once at a queue that it was told of many times.
func TestTurnIsBoundedInPosts(t *testing.T) {
	t.Parallel()
	const posts, limit = 1 << 14, 100
	words := make([]uint64, ipc.QueueSize(work.PostSize, posts)/8)
	mem := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words))
	app, ok := ipc.NewQueue(mem, work.PostSize, posts, true)
	taken, ok2 := ipc.NewQueue(mem, work.PostSize, posts, false)
	if !ok || !ok2 {
		t.Fatal("no queue")
	}
	one, two := new(idleWorker), new(idleWorker)
	xs := &xrcSession{posts: taken, batch: new(batch), isDue: make(map[worker]struct{}), table: map[uint32]any{1: one, 2: two}}
	for i := range posts {
		work.PutPost(app.Record(i), uint32(1+i%2))
	}
	app.Advance(posts)
	turns := 0
	for more := true; more; turns++ {
		n, left, err := xs.turn(limit)
		if err != nil || n > 2*limit {
			t.Fatalf("a turn takes %d, %v", n, err)
		}
		more = left
	}
	if want := (posts + limit - 1) / limit; turns != want || one.looks != want || two.looks != want {
		t.Errorf("%d turns with %d and %d looks, want %d", turns, one.looks, two.looks, want)
	}
	if len(xs.isDue) > 0 {
		t.Errorf("%d queues are due", len(xs.isDue))
	}
}
