package iwarp

import "container/heap"

// later are queues that wait for something, as a heap.
type later struct {
	list   []*outQueue
	before func(a, b *outQueue) bool
}

// first is the queue that waits for what comes first, nil if none waits.
func (l *later) first() *outQueue {
	if len(l.list) == 0 {
		return nil
	}
	return l.list[0]
}

// Len is for package heap, as are the others.
func (l *later) Len() int { return len(l.list) }

func (l *later) Less(i, j int) bool { return l.before(l.list[i], l.list[j]) }

func (l *later) Swap(i, j int) {
	l.list[i], l.list[j] = l.list[j], l.list[i]
	l.list[i].at, l.list[j].at = i, j
}

func (l *later) Push(q any) {
	q.(*outQueue).at, q.(*outQueue).later = len(l.list), l
	l.list = append(l.list, q.(*outQueue))
}

func (l *later) Pop() any {
	n := len(l.list) - 1
	q := l.list[n]
	l.list[n], l.list = nil, l.list[:n]
	q.later = nil
	return q
}

// add has q wait, or wait for what it has come to wait for.
func (l *later) add(q *outQueue) {
	if q.later == l {
		heap.Fix(l, q.at)
		return
	}
	heap.Push(l, q)
}

func (l *later) remove(q *outQueue) { heap.Remove(l, q.at) }
