//go:build !live

package iwarp

import "testing"

// A queue that is resized keeps its requests and their order, with room for one that may come
// back.
func TestReceiveQueueIsResized(t *testing.T) {
	t.Parallel()
	r := receiveQueue{ring: make([]receiveSlot, 8)}
	post := func(ids ...uint64) {
		t.Helper()
		for _, id := range ids {
			if _, err := r.post([]ReceiveRequest{{ID: id}}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	var s receiveSlot
	take := func(want ...uint64) {
		t.Helper()
		for _, id := range want {
			if !r.lend(&s) || s.id != id {
				t.Fatalf("%d, want %d", s.id, id)
			}
			r.settle()
		}
	}
	post(0, 1, 2, 3, 4)
	take(0, 1, 2)
	post(5, 6, 7, 8) // wraps around
	if !r.lend(&s) {
		t.Fatal("empty")
	}
	if r.resize(5) || !r.resize(6) || !r.resize(24) || !r.resize(6) {
		t.Error("resized to less than five posted and one lent, or not to more")
	}
	r.unpop(&s)
	if _, err := r.post([]ReceiveRequest{{}}, nil); err != ErrQueueFull {
		t.Error(err)
	}
	take(3, 4, 5, 6, 7, 8)
	if r.resize(0) || r.posted() != 0 {
		t.Error("a queue without room")
	}
}
