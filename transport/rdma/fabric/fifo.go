package fabric

// fifo is a queue that reuses its memory.
type fifo[T any] struct {
	list []T
	head int
}

func (q *fifo[T]) push(v ...T) { q.list = append(q.list, v...) }

// all is what is in the queue, oldest first, until the next change.
func (q *fifo[T]) all() []T { return q.list[q.head:] }

func (q *fifo[T]) len() int { return len(q.list) - q.head }

// drop takes the oldest n out.
func (q *fifo[T]) drop(n int) {
	q.head += n
	if q.head*2 >= len(q.list) { // each is moved once on the average
		q.list, q.head = q.list[:copy(q.list, q.list[q.head:])], 0
	}
}

// keep leaves the first n of all, which the caller may have changed.
func (q *fifo[T]) keep(n int) { q.list = q.list[:q.head+n] }
