package fabric

// fifo is a queue of slots.
type fifo struct {
	list []uint32
	head int
}

func (q *fifo) push(slot uint32) { q.list = append(q.list, slot) }

// all is what is in the queue, oldest first, until the next change.
func (q *fifo) all() []uint32 { return q.list[q.head:] }

// drop takes the oldest n out.
func (q *fifo) drop(n int) {
	q.head += n
	if q.head*2 >= len(q.list) { // each is moved once on the average
		q.list, q.head = q.list[:copy(q.list, q.list[q.head:])], 0
	}
}

// keep leaves the first n of all, which the caller may have changed.
func (q *fifo) keep(n int) { q.list = q.list[:q.head+n] }
