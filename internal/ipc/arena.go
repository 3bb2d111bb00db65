package ipc

import "math/bits"

// Sizes of an arena's blocks: powers of two from MinBlock to ChunkSize.
const (
	MinBlock  = 4 << 10
	ChunkSize = 1 << 20

	leaves = ChunkSize / MinBlock
	orders = 9 // 4 KiB << 8 is 1 MiB
)

// Arena allocates blocks of an area. It keeps its books outside the area. It is
// a row of chunks of 1 MiB, each a buddy system, made when first needed: an
// arena never used is a slice of nil pointers, and the lowest chunks are used
// first, so that pages once touched are used again. It is not safe for
// concurrent use.
type Arena struct {
	chunks []*chunk
	free   int
	hint   int // no chunk below has MinBlock free
}

// chunk is a complete binary tree: node i has the children 2i and 2i+1, and
// holds one more than the largest order that is free below it, 0 for none. What
// lies below an allocated node keeps the values of free ones.
type chunk struct {
	tree [2 * leaves]uint8
}

// NewArena manages an area of n bytes, a multiple of ChunkSize.
func NewArena(n int) *Arena {
	if n <= 0 || n%ChunkSize != 0 {
		panic("ipc: an arena is a number of whole chunks")
	}
	return &Arena{chunks: make([]*chunk, n/ChunkSize), free: n}
}

// Free is the number of bytes not allocated.
func (a *Arena) Free() int { return a.free }

// Empty tells whether nothing of the chunk around off is allocated.
func (a *Arena) Empty(off int) bool {
	c := a.chunks[off/ChunkSize]
	return c == nil || c.tree[1] == orders
}

// Size is the number of bytes managed.
func (a *Arena) Size() int { return len(a.chunks) * ChunkSize }

func order(n int) int {
	if n <= MinBlock {
		return 0
	}
	return bits.Len(uint(n-1)) - 12
}

// Alloc returns the offset and the size of a block of at least n bytes, at
// most ChunkSize.
func (a *Arena) Alloc(n int) (off, size int, ok bool) {
	o := order(n)
	if o >= orders {
		return 0, 0, false
	}
	for i := a.hint; i < len(a.chunks); i++ {
		c := a.chunks[i]
		if c == nil {
			c = newChunk()
			a.chunks[i] = c
		}
		if int(c.tree[1]) <= o {
			if c.tree[1] == 0 && i == a.hint {
				a.hint++
			}
			continue
		}
		a.free -= MinBlock << o
		return i*ChunkSize + c.alloc(o), MinBlock << o, true
	}
	return 0, 0, false
}

func newChunk() *chunk {
	c := new(chunk)
	level := orders
	for i := range c.tree {
		if i > 1 && i&(i-1) == 0 {
			level--
		}
		c.tree[i] = uint8(level)
	}
	return c
}

func (c *chunk) alloc(o int) int {
	i := 1
	for at := orders - 1; at > o; at-- {
		i *= 2
		if l, r := c.tree[i], c.tree[i+1]; int(l) <= o || int(r) > o && r < l { // the tighter fit
			i++
		}
	}
	c.tree[i] = 0
	off := i<<o - leaves
	c.up(i)
	return off * MinBlock
}

// up brings the nodes above i in line. Two free buddies make a free block of
// the next order.
func (c *chunk) up(i int) {
	full := uint8(order(blockSize(i)) + 1)
	for i > 1 {
		i /= 2
		l, r := c.tree[2*i], c.tree[2*i+1]
		if l == full && r == full {
			c.tree[i] = full + 1
		} else {
			c.tree[i] = max(l, r)
		}
		full++
	}
}

// blockSize is that of node i.
func blockSize(i int) int { return ChunkSize >> (bits.Len(uint(i)) - 1) }

// Release frees the block at off, which Alloc returned. It panics if no
// allocated block begins there.
func (a *Arena) Release(off int) {
	const unknown = "ipc: release of a block that is not allocated"
	n := off / ChunkSize
	if off < 0 || off%MinBlock != 0 || n >= len(a.chunks) || a.chunks[n] == nil {
		panic(unknown)
	}
	c := a.chunks[n]
	i := leaves + off%ChunkSize/MinBlock
	for c.tree[i] != 0 { // the smallest node there that is not free is the block
		if i&1 != 0 || i == 1 {
			panic(unknown)
		}
		i /= 2
	}
	size := blockSize(i)
	c.tree[i] = uint8(order(size) + 1)
	c.up(i)
	a.free += size
	a.hint = min(a.hint, n)
}
