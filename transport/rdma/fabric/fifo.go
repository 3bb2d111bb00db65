package fabric

import "slices"

// fifo is a queue of slots.
type fifo struct {
	list []uint32
	head int
}

func (q *fifo) len() int         { return len(q.list) - q.head }
func (q *fifo) at(i int) uint32  { return q.list[q.head+i] }
func (q *fifo) push(slot uint32) { q.list = append(q.list, slot) }
func (q *fifo) all() []uint32    { return q.list[q.head:] }

// take moves the first n to dst.
func (q *fifo) take(dst []uint32, n int) []uint32 {
	dst = append(dst, q.list[q.head:q.head+n]...)
	q.head += n
	if q.head*2 >= len(q.list) { // each is moved once on the average
		q.list, q.head = q.list[:copy(q.list, q.list[q.head:])], 0
	}
	return dst
}

// remove takes one out of the middle.
func (q *fifo) remove(i int) (slot uint32) {
	slot = q.at(i)
	q.list = slices.Delete(q.list, q.head+i, q.head+i+1)
	return slot
}
