package buf

import (
	"math"
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

// Buf is a counted buffer. B is the holders' to use between Get and the last
// Release, which takes it away; they may reslice or replace it, the memory that
// goes back to the pool is still all of what came out. A Buf must not be
// copied.
type Buf struct {
	B    []byte
	mem  []byte // everything B began with, its length the class size when pooled
	refs atomic.Int32
	pool *Pool // nil: the buffer is too large for a pool
	next *Buf  // next buffer in a pool's free list
	own  Owner // owner of memory that is not a pool's
}

// Owner takes back memory that it lent out as a Buf.
type Owner interface {
	// Put is called by whoever releases the last hold. b has no holder then:
	// the owner may Lend it again.
	Put(b *Buf)
}

// Lend makes b, which may be a zero Buf, a buffer of the owner's memory with
// one holder.
func (b *Buf) Lend(mem []byte, o Owner) {
	b.B, b.mem, b.own = mem, mem, o
	b.refs.Store(1)
}

// Owner returns who lent the memory, nil for a pool's.
func (b *Buf) Owner() Owner { return b.own }

// TryRetain adds a holder unless there is none any more.
func (b *Buf) TryRetain(n int) bool {
	for {
		r := b.refs.Load()
		if r <= 0 {
			return false
		}
		if b.refs.CompareAndSwap(r, r+int32(n)) {
			return true
		}
	}
}

// Pool is a set of free lists. The zero Pool is ready and keeps nothing beyond
// defaultKeep bytes in each class, and no buffer that was not needed for a while. It is
// safe for concurrent use.
type Pool struct {
	Keep int // bytes kept free in each class; 0 means defaultKeep
	list [classes]freeList
	trim trimmer
}

// defaultKeep is how many free bytes a class of a Pool keeps by default.
const defaultKeep = 8 << 20

// scribble fills released memory when invariants are checked.
const scribble = 0xdb

type freeList struct {
	mu        sync.Mutex // guards all below
	head      *Buf
	n         int
	low       int // the least n since the last trim
	discarded uint64
}

// Get returns a buffer of n bytes with one holder. Its content is arbitrary.
func (p *Pool) Get(n int) *Buf {
	if n > MaxPooled {
		b := &Buf{mem: make([]byte, n)}
		b.B = b.mem
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
		l.low = min(l.low, l.n)
	}
	l.mu.Unlock()
	if b == nil {
		b = &Buf{mem: make([]byte, 1<<(minShift+c)), pool: p}
	}
	b.B = b.mem[:n]
	b.refs.Store(1)
	return b
}

func class(n int) int {
	if n <= 1<<minShift {
		return 0
	}
	return bits.Len(uint(n-1)) - minShift
}

// Discarded returns how many released buffers the pool left to the garbage
// collector because their class kept enough.
func (p *Pool) Discarded() uint64 {
	var n uint64
	for c := range p.list {
		l := &p.list[c]
		l.mu.Lock()
		n += l.discarded
		l.mu.Unlock()
	}
	return n
}

// Retain adds n holders. Only a holder may call it.
func (b *Buf) Retain(n int) {
	if n < 0 || n > math.MaxInt32 {
		panic("buf: retain count out of range")
	}
	if b.refs.Add(int32(n)) <= int32(n) {
		panic("buf: retain of a released buffer")
	}
}

// Sole tells whether the caller is the only holder.
func (b *Buf) Sole() bool { return b.refs.Load() == 1 }

// Release takes one holder away. The last one gives the buffer back; nobody
// may touch it afterwards.
func (b *Buf) Release() { b.ReleaseN(1) }

// ReleaseN takes n holders away at once; 0 changes nothing.
func (b *Buf) ReleaseN(n int) {
	if n < 0 || n > math.MaxInt32 {
		panic("buf: release count out of range")
	}
	switch r := b.refs.Add(int32(-n)); {
	case r > 0:
		return
	case r < 0 || n == 0:
		panic("buf: released more often than retained")
	}
	b.B = nil
	if b.own != nil {
		b.own.Put(b)
		return
	}
	if invariants.Enabled {
		b.mem[0] = scribble
		for n := 1; n < len(b.mem); n *= 2 { // doubles the copied part: a byte loop is slow under race
			copy(b.mem[n:], b.mem[:n])
		}
	}
	if b.pool != nil {
		b.pool.put(b)
	}
}

func (p *Pool) put(b *Buf) {
	keep := p.Keep
	if keep == 0 {
		keep = defaultKeep
	}
	l := &p.list[class(len(b.mem))]
	l.mu.Lock()
	if (l.n+1)*len(b.mem) <= keep {
		b.next, l.head = l.head, b
		l.n++
	} else {
		l.discarded++
	}
	l.mu.Unlock()
	p.trim.start(p)
}
