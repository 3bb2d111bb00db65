package ipc

import "sync/atomic"

// heapRing is a ring in ordinary memory, where the race detector sees it.
type heapRing struct {
	slots      []Entry
	tail, head atomic.Uint64
}

func newHeapRing(n int) *heapRing { return &heapRing{slots: make([]Entry, n)} }

func (r *heapRing) producer() Producer { return NewProducer(r.slots, &r.tail, &r.head) }
func (r *heapRing) consumer() Consumer { return NewConsumer(r.slots, &r.tail, &r.head) }

// mix scatters a number over all bits (the finalizer of splitmix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
