package objects

import "sync/atomic"

// srqTable finds shared receive queues by number: two levels of pointers, read
// without a lock. A page, once made, stays; numbers are given out so that few
// pages are ever used.
type srqTable struct {
	pages [firstInitiator >> pageBits]atomic.Pointer[srqPage]
}

const pageBits = 10

type srqPage [1 << pageBits]atomic.Pointer[SRQ]

// find returns nil for numbers that name nothing.
func (t *srqTable) find(number uint32) *SRQ {
	if number >= firstInitiator {
		return nil
	}
	p := t.pages[number>>pageBits].Load()
	if p == nil {
		return nil
	}
	return p[number&(1<<pageBits-1)].Load()
}

// set publishes a queue or, with nil, removes it. Under Device.mu.
func (t *srqTable) set(number uint32, s *SRQ) {
	slot := &t.pages[number>>pageBits]
	p := slot.Load()
	if p == nil {
		p = new(srqPage)
		slot.Store(p)
	}
	p[number&(1<<pageBits-1)].Store(s)
}
