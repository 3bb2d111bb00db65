package fifo

import "slices"

// Queue is a queue of values. The zero Queue is empty.
type Queue[T any] struct {
	list []T
	head int
}

// Push appends values.
func (q *Queue[T]) Push(v ...T) { q.list = append(q.list, v...) }

// PushFront puts values before the oldest, in their order.
func (q *Queue[T]) PushFront(v ...T) {
	if n := q.head - len(v); n >= 0 { // the places of values that have left
		copy(q.list[n:], v)
		q.head = n
		return
	}
	q.list = slices.Insert(q.list, q.head, v...)
}

// All is what is in the queue, oldest first, until the next change.
func (q *Queue[T]) All() []T { return q.list[q.head:] }

// Len is how many values there are.
func (q *Queue[T]) Len() int { return len(q.list) - q.head }

// Drop takes the oldest n out.
func (q *Queue[T]) Drop(n int) {
	clear(q.list[q.head : q.head+n])
	q.head += n
	if q.head*2 >= len(q.list) { // each element is moved once on the average
		rest := copy(q.list, q.list[q.head:])
		clear(q.list[rest:])
		q.list, q.head = q.list[:rest], 0
	}
}

// Keep leaves the first n of All, which the caller may have changed.
func (q *Queue[T]) Keep(n int) {
	clear(q.list[q.head+n:])
	q.list = q.list[:q.head+n]
}

// Shrink gives back the memory of an empty queue that had more than n values.
func (q *Queue[T]) Shrink(n int) {
	if q.Len() == 0 && cap(q.list) > n {
		q.list, q.head = nil, 0
	}
}
