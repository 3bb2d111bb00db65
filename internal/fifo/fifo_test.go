package fifo

import (
	"slices"
	"testing"
)

func TestQueue(t *testing.T) {
	t.Parallel()
	var q Queue[uint32]
	next := uint32(0)
	for i := range uint32(1000) {
		q.Push(i)
		if i%3 == 2 {
			for _, got := range q.All()[:2] {
				if got != next {
					t.Fatalf("%d, want %d", got, next)
				}
				next++
			}
			q.Drop(2)
		}
	}
	all := q.All()
	q.Keep(copy(all, all[10:]))
	if q.All()[0] != next+10 || q.Len() != 1000-int(next)-10 {
		t.Errorf("%d of %d are left", q.All()[0], q.Len())
	}
}

// What never runs empty does not grow, and what has left is not kept.
func TestQueueThatIsNeverEmpty(t *testing.T) {
	t.Parallel()
	const waiting = 3000
	var q Queue[*int]
	for i := range 1 << 18 {
		q.Push(&i)
		if i < waiting {
			continue
		}
		if got := *q.All()[0]; got != i-waiting {
			t.Fatalf("%d is the first, not %d", got, i-waiting)
		}
		q.Drop(1)
	}
	if q.Len() != waiting || cap(q.list) > 4*waiting {
		t.Errorf("room for %d, %d wait", cap(q.list), q.Len())
	}
	q.Keep(waiting / 2)
	kept := q.list[:cap(q.list)]
	if n := len(kept) - len(slices.DeleteFunc(slices.Clone(kept), func(p *int) bool { return p != nil })); n != waiting/2 {
		t.Errorf("%d values are kept, %d wait", n, q.Len())
	}
	q.Shrink(0)
	if q.Len() != waiting/2 {
		t.Error("Shrink took values")
	}
	q.Drop(q.Len())
	if q.Shrink(cap(q.list)); q.list == nil {
		t.Error("Shrink took memory that was to be kept")
	}
	if q.Shrink(10); q.list != nil || q.Len() != 0 {
		t.Errorf("room for %d in an empty queue", cap(q.list))
	}
}

// Values put back come before the oldest, whether there are places of values that have left or not.
func TestPushFront(t *testing.T) {
	t.Parallel()
	for dropped := range 4 {
		var q Queue[int]
		for i := range 10 {
			q.Push(i)
		}
		q.Drop(dropped)
		q.PushFront(20, 21)
		want := []int{20, 21}
		for i := dropped; i < 10; i++ {
			want = append(want, i)
		}
		if !slices.Equal(q.All(), want) || q.Len() != len(want) {
			t.Errorf("%d left before: %v", dropped, q.All())
		}
	}
}
