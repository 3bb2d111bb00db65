package ipc

import (
	"fmt"
	"os"
)

// A daemon passes its sessions to the process that takes its place: the segments stay
// what they are, and so do both ends of the doorbells. What the daemon keeps in its own
// memory because the application could spoil it in the segment is passed besides: the
// layout, the daemon's indices of the rings, and the list of spilled completions.

// Ring is where a daemon's end of a ring is.
type Ring struct {
	Own   uint64 // index of the next entry
	Other uint64 // the application's index, as last read
}

// At returns where the producer is. Everything put is published.
func (p *Producer) At() Ring { return Ring{p.tail, p.head} }

// Seek has a new producer go on from there.
func (p *Producer) Seek(r Ring) { p.tail, p.head = r.Own, r.Other }

// At returns where the consumer is. Everything read is published.
func (c *Consumer) At() Ring { return Ring{c.head, c.tail} }

// Seek has a new consumer go on from there.
func (c *Consumer) Seek(r Ring) { c.head, c.tail = r.Own, r.Other }

// AdoptSegment maps a segment that another daemon has made with this layout. What its
// first page says is not read: the application can write there.
func AdoptSegment(l Layout, f *os.File) (*Segment, error) {
	if err := l.validate(); err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() != int64(l.Size()) {
		return nil, fmt.Errorf("%w: %d bytes, want %d", errLayout, info.Size(), l.Size())
	}
	s := &Segment{Layout: l}
	if s.mem, err = mmap(f, l.Size(), true); err != nil {
		return nil, err
	}
	return s, nil
}

// Take allocates the block of size bytes at off, as Alloc returned it for another Arena of
// this size. It tells whether the block was free.
func (a *Arena) Take(off, size int) bool {
	n, o := off/ChunkSize, order(size)
	if off < 0 || n >= len(a.chunks) || size <= 0 || o >= orders || size != MinBlock<<o || off%size != 0 {
		return false
	}
	if a.chunks[n] == nil {
		a.chunks[n] = newChunk()
	}
	c := a.chunks[n]
	i := (leaves + off%ChunkSize/MinBlock) >> o
	if int(c.tree[i]) != o+1 {
		return false
	}
	for up := i / 2; up > 0; up /= 2 {
		if c.tree[up] == 0 {
			return false // the block is within one that is allocated
		}
	}
	c.tree[i] = 0
	c.up(i)
	a.free -= size
	return true
}

// SpillState is a Spill as one daemon leaves it to another.
type SpillState struct {
	Blocks            []uint32 // offsets in the receive arena
	First, Taken, Put uint64
}

// State describes the list.
func (p *Spill) State() SpillState {
	return SpillState{Blocks: p.blocks, First: p.first, Taken: p.taken, Put: p.put}
}

// Restore has a new Spill go on from there. It is false if there is no such list.
func (p *Spill) Restore(s SpillState) bool {
	if len(s.Blocks) == 0 && s.Taken == s.Put {
		s.First = s.Put // Freed has left First behind the last block, which was not full.
	}
	if s.Taken > s.Put || s.First > s.Taken || s.Put-s.First > uint64(len(s.Blocks))*spillEntries {
		return false
	}
	for _, off := range s.Blocks {
		if uint64(off)+SpillBlock > uint64(len(p.area)) || off%MinBlock != 0 {
			return false
		}
	}
	p.blocks, p.first, p.taken, p.put = s.Blocks, s.First, s.Taken, s.Put
	return true
}

// Succeed has a table, of which no application has the file yet, count congestion maps on
// from where another daemon's was, and generations of slots.
func (t *Table) Succeed(maps uint64, slots []uint32) {
	t.word(offTableMaps).Store(maps)
	copy(t.slots, slots)
}

// Replace maps the table in f in place of t. Whoever reads t meanwhile reads the one or
// the other.
func (t *Table) Replace(f *os.File) error {
	next, err := OpenTable(f)
	if err != nil {
		return err
	}
	defer next.Close()
	return remap(f, t.mem)
}

// NewFile makes a file in memory with these contents, to be passed to another process.
func NewFile(name string, contents []byte) (*os.File, error) {
	f, err := memfd(name, len(contents))
	if err != nil {
		return nil, err
	}
	if _, err := f.WriteAt(contents, 0); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// ReadFile returns the contents of such a file.
func ReadFile(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b := make([]byte, info.Size())
	if _, err := f.ReadAt(b, 0); err != nil {
		return nil, err
	}
	return b, nil
}
