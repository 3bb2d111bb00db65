package ipc

import "sync/atomic"

// Completions that find the ring full wait in shared memory, too: a daemon that is killed
// leaves them to the application. They are spilled into a list of blocks of the receive
// arena, and go to the ring from there, in order and with FlagSpilled, so that the
// application knows how many of them it has had.

// Sizes and offsets of a block of spilled completions.
const (
	SpillBlock   = 64 << 10 // bytes of a block
	spillEntries = (SpillBlock - spillHead) / entrySize

	spillNext  = 0x00 // offset of the next block in the receive arena, and 1; 0: there is none
	spillFirst = 0x08 // index of the block's first entry among all that were ever spilled
	spillCount = 0x10 // entries written
	spillHead  = 0x20
)

// Spill is the daemon's end of the list. What the daemon reads of it goes to the ring as
// it is, and means nothing to the daemon: the application may have overwritten it.
type Spill struct {
	area   []byte // the receive arena
	oldest *atomic.Uint64
	blocks []uint32 // offsets
	first  uint64   // index of the first entry of blocks[0]
	taken  uint64   // entries ever taken
	put    uint64   // entries ever put
}

// Spill is the daemon's end of the list of spilled completions.
func (s *Segment) Spill() Spill { return Spill{area: s.ReceiveArea(), oldest: s.word(offSpill)} }

// Len is how many entries wait.
func (p *Spill) Len() int { return int(p.put - p.taken) }

// Full tells whether the next entry needs another block.
func (p *Spill) Full() bool {
	return len(p.blocks) == 0 || p.put-p.first == uint64(len(p.blocks))*spillEntries
}

// Grow adds a block of SpillBlock bytes at off of the receive arena.
func (p *Spill) Grow(off uint32) {
	b := p.area[off:]
	atomic64(b[spillNext:]).Store(0)
	atomic64(b[spillFirst:]).Store(p.put)
	atomic64(b[spillCount:]).Store(0)
	if n := len(p.blocks); n == 0 {
		p.first = p.put
		p.oldest.Store(uint64(off) + 1)
	} else {
		atomic64(p.area[p.blocks[n-1]+spillNext:]).Store(uint64(off) + 1)
	}
	p.blocks = append(p.blocks, off)
}

// Put appends an entry, for which there is room. The application can see it.
func (p *Spill) Put(e Entry) {
	i := (p.put - p.first) % spillEntries
	b := p.area[p.blocks[len(p.blocks)-1]:]
	entries(b[spillHead:SpillBlock])[i] = e
	p.put++
	atomic64(b[spillCount:]).Store(i + 1)
}

// Take takes the oldest entry out.
func (p *Spill) Take() Entry {
	i := p.taken - p.first
	b := p.area[p.blocks[i/spillEntries]:]
	p.taken++
	return entries(b[spillHead:SpillBlock])[i%spillEntries]
}

// Each shows f the entries that wait, as the application has left them.
func (p *Spill) Each(f func(*Entry)) {
	for k := p.taken; k < p.put; k++ {
		i := k - p.first
		b := p.area[p.blocks[i/spillEntries]:]
		e := entries(b[spillHead:SpillBlock])[i%spillEntries]
		f(&e)
	}
}

// Freed returns a block all of whose entries were taken, and are visible to the
// application on the ring; false: there is none.
func (p *Spill) Freed() (off uint32, ok bool) {
	if len(p.blocks) == 0 || p.taken != p.put && p.taken-p.first < spillEntries {
		return 0, false
	}
	off = p.blocks[0]
	p.blocks = p.blocks[1:]
	p.first += spillEntries
	if len(p.blocks) == 0 {
		p.blocks = nil
		p.oldest.Store(0)
	} else {
		p.oldest.Store(uint64(p.blocks[0]) + 1)
	}
	return off, true
}

// Spilled shows f the spilled completions behind the first taken ones, those that the
// application has had on the ring, when the daemon has ended.
func (s *Segment) Spilled(taken uint64, f func(*Entry)) {
	area := s.ReceiveArea()
	next := s.word(offSpill).Load()
	for range len(area) / SpillBlock { // the list may be broken, but not without end
		if next == 0 || next > uint64(len(area)-SpillBlock)+1 || (next-1)%MinBlock != 0 {
			return
		}
		b := area[next-1:][:SpillBlock]
		first, n := atomic64(b[spillFirst:]).Load(), min(atomic64(b[spillCount:]).Load(), spillEntries)
		all := entries(b[spillHead:])
		for i := range n {
			if first+i >= taken {
				e := all[i]
				f(&e)
			}
		}
		next = atomic64(b[spillNext:]).Load()
	}
}
