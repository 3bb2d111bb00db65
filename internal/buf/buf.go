package buf

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/rds-go/rds/internal/invariants"
)

const (
	minShift = 9  // the smallest class, 512 B
	maxShift = 21 // the largest class, 2 MiB; larger buffers are not pooled
	classes  = maxShift - minShift + 1

	// MaxPooled is the largest buffer that returns to a pool.
	MaxPooled = 1 << maxShift
)

// Buf is a counted buffer. B is the holder's to use between Get and Release;
// its capacity is the class size. A Buf must not be copied.
type Buf struct {
	B    []byte
	refs atomic.Int32
	pool *Pool
	next *Buf // in a pool's free list
}

// Pool is a set of free lists. The zero Pool is ready and keeps nothing beyond
// DefaultKeep bytes in each class. It is safe for concurrent use.
type Pool struct {
	Keep int // bytes kept free in each class; 0 means DefaultKeep
	list [classes]freeList
}

// DefaultKeep is how many free bytes a class of a Pool keeps by default.
const DefaultKeep = 8 << 20

type freeList struct {
	mu   sync.Mutex
	head *Buf
	n    int
}

// Get returns a buffer of n bytes with one holder. Its content is arbitrary.
func (p *Pool) Get(n int) *Buf {
	if n > MaxPooled {
		b := &Buf{B: make([]byte, n)}
		b.refs.Store(1)
		return b
	}
	c := class(n)
	l := &p.list[c]
	l.mu.Lock()
	b := l.head
	if b != nil {
		l.head, b.next = b.next, nil
		l.n--
	}
	l.mu.Unlock()
	if b == nil {
		b = &Buf{B: make([]byte, 1<<(minShift+c)), pool: p}
	}
	b.B = b.B[:n]
	b.refs.Store(1)
	return b
}

func class(n int) int {
	if n <= 1<<minShift {
		return 0
	}
	return bits.Len(uint(n-1)) - minShift
}

// Retain adds n holders.
func (b *Buf) Retain(n int) {
	if b.refs.Add(int32(n)) <= int32(n) {
		panic("buf: retain of a released buffer")
	}
}

// Release takes one holder away. The last one gives the buffer back; nobody
// may touch it afterwards.
func (b *Buf) Release() { b.ReleaseN(1) }

// ReleaseN takes n holders away at once.
func (b *Buf) ReleaseN(n int) {
	switch r := b.refs.Add(int32(-n)); {
	case r > 0:
		return
	case r < 0:
		panic("buf: released more often than retained")
	}
	if b.pool == nil {
		return
	}
	b.B = b.B[:cap(b.B)]
	if invariants.Enabled {
		for i := range b.B {
			b.B[i] = 0xdb
		}
	}
	c := class(len(b.B))
	keep := b.pool.Keep
	if keep == 0 {
		keep = DefaultKeep
	}
	l := &b.pool.list[c]
	l.mu.Lock()
	if (l.n+1)<<(minShift+c) <= keep {
		b.next, l.head = l.head, b
		l.n++
	}
	l.mu.Unlock()
}
