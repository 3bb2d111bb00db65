package buf

import (
	"sync"
	"sync/atomic"
	"time"
)

// trimAfter is how long a free buffer is kept that nobody needs, up to twice that.
const trimAfter = time.Second

// trimmer looks at a pool's lists now and then, as long as they are not all empty.
type trimmer struct {
	on    atomic.Bool
	mu    sync.Mutex
	timer *time.Timer // guarded by mu; nil before it is needed
}

// start sees to it that what p keeps is looked at.
func (t *trimmer) start(p *Pool) {
	if t.on.Load() || t.on.Swap(true) {
		return
	}
	t.mu.Lock()
	if t.timer == nil {
		t.timer = time.AfterFunc(trimAfter, p.look)
	} else {
		t.timer.Reset(trimAfter)
	}
	t.mu.Unlock()
}

// look is one look.
func (p *Pool) look() {
	left := p.shrink()
	p.trim.on.Store(false)
	if left || p.holds() { // something may have been put back in between
		p.trim.start(p)
	}
}

// shrink gives up the free buffers that were not needed since the last call, and tells
// whether there are others.
func (p *Pool) shrink() (left bool) {
	for c := range p.list {
		l := &p.list[c]
		l.mu.Lock()
		l.n -= l.low
		last := &l.head
		for range l.n {
			last = &(*last).next
		}
		*last = nil // the ones at the end were used longest ago
		l.low = l.n
		left = left || l.n > 0
		l.mu.Unlock()
	}
	return left
}

// holds tells whether there are free buffers.
func (p *Pool) holds() bool {
	for c := range p.list {
		l := &p.list[c]
		l.mu.Lock()
		n := l.n
		l.mu.Unlock()
		if n > 0 {
			return true
		}
	}
	return false
}
