package ipc

import (
	"sync/atomic"
)

// heapRing is a ring in ordinary memory, where the race detector sees it.
type heapRing struct {
	slots      []Entry
	tail, head atomic.Uint64
}

func newHeapRing(n int) *heapRing { return &heapRing{slots: make([]Entry, n)} }

func (r *heapRing) producer() Producer { return NewProducer(r.slots, &r.tail, &r.head) }
func (r *heapRing) consumer() Consumer { return NewConsumer(r.slots, &r.tail, &r.head) }
