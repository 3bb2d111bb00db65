package ipc

import (
	"errors"
	"sync/atomic"
	"unsafe"
)

// ErrCorrupt: an index in shared memory is impossible: the other side is
// broken, or hostile.
var ErrCorrupt = errors.New("ipc: corrupt ring index")

// Producer is the writing end of a ring. Indices only grow; a slot is an index
// modulo the size.
type Producer struct {
	slots []Entry
	tail  uint64 // index of the next entry; this side's own
	head  uint64 // the consumer's index, as last read
	pub   *atomic.Uint64
	sub   *atomic.Uint64
}

// Consumer is the reading end of a ring.
type Consumer struct {
	slots []Entry
	head  uint64 // index of the next entry; this side's own
	tail  uint64 // the producer's index, as last read
	pub   *atomic.Uint64
	sub   *atomic.Uint64
}

// NewProducer and NewConsumer make the two ends of a ring of len(slots)
// entries, a power of two, with its indices in tail and head.
func NewProducer(slots []Entry, tail, head *atomic.Uint64) Producer {
	return Producer{slots: slots, pub: tail, sub: head}
}

// NewConsumer is NewProducer's other end.
func NewConsumer(slots []Entry, tail, head *atomic.Uint64) Consumer {
	return Consumer{slots: slots, pub: head, sub: tail}
}

// Free returns for how many entries there is room, looking at the other side's
// index only when less than want is known to be free.
func (p *Producer) Free(want int) (int, error) {
	size := uint64(len(p.slots))
	free := size - (p.tail - p.head)
	if free < uint64(want) {
		head := p.sub.Load()
		if head-p.head > p.tail-p.head { // the other side's index ran back, or past what was produced
			return 0, ErrCorrupt
		}
		p.head = head
		free = size - (p.tail - head)
	}
	return int(free), nil
}

// Put appends an entry, for which there must be room. It is not visible before
// Publish.
func (p *Producer) Put(e Entry) {
	p.slots[p.tail&uint64(len(p.slots)-1)] = e
	p.tail++
}

// Publish shows the consumer all entries put so far. The store orders them,
// and the payloads they speak of, before itself.
func (p *Producer) Publish() { p.pub.Store(p.tail) }

// Tail is the index of the next entry, Head the consumer's as last read.
func (p *Producer) Tail() uint64 { return p.tail }

// Head is the consumer's index as Free last read it.
func (p *Producer) Head() uint64 { return p.head }

// Left returns the entries from index on that the other side has not taken, and takes back
// no slot.
func (p *Producer) Left(index uint64) []Entry {
	if _, err := p.Free(len(p.slots)); err != nil {
		return nil
	}
	var out []Entry
	for i := max(p.head, index); i < p.tail; i++ {
		out = append(out, p.slots[i&uint64(len(p.slots)-1)])
	}
	return out
}

// Ready returns the number of entries to read, looking at the other side's
// index only when none are known.
func (c *Consumer) Ready() (int, error) {
	if c.tail != c.head {
		return int(c.tail - c.head), nil
	}
	return c.Refresh()
}

// Refresh looks at the other side's index and returns the number of entries
// to read.
func (c *Consumer) Refresh() (int, error) {
	tail := c.sub.Load()
	if n := tail - c.head; n > uint64(len(c.slots)) || n < c.tail-c.head {
		return 0, ErrCorrupt
	}
	c.tail = tail
	return int(tail - c.head), nil
}

// Peek copies the i-th entry that is ready; Next consumes n of them.
func (c *Consumer) Peek(i int) Entry { return c.slots[(c.head+uint64(i))&uint64(len(c.slots)-1)] }

// Next consumes n entries. The producer sees it with Publish.
func (c *Consumer) Next(n int) { c.head += uint64(n) }

// Publish gives the consumed slots back to the producer.
func (c *Consumer) Publish() { c.pub.Store(c.head) }

// Head is the number of entries consumed so far.
func (c *Consumer) Head() uint64 { return c.head }

func atomic64(b []byte) *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&b[:8][0])) }
func atomic32(b []byte) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&b[:4][0])) }

func entries(b []byte) []Entry {
	return unsafe.Slice((*Entry)(unsafe.Pointer(&b[0])), len(b)/entrySize)
}
