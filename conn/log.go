package conn

import "github.com/rds-go/rds/internal/buf"

// The log of a path holds encoded headers and small payloads back to back, in
// chunks, so that one slice of a vectored write carries hundreds of messages.
// Chunks fill in order and are freed when no message in them is left.
const (
	minChunk = 2 << 10
	maxChunk = 64 << 10

	// InlineMax is the largest payload that is copied into the log; larger
	// ones keep a buffer of their own and cost a slice each.
	InlineMax = 16 << 10
)

type chunk struct {
	b    *buf.Buf
	used int
	live int // messages in it
}

type log struct {
	pool *buf.Pool
	tail *chunk // chunk that the next message goes to; nil before the first message
	next int    // size of the next chunk
}

// room returns n contiguous bytes and the chunk they are in, counting one
// message in it.
func (l *log) room(n int) (*chunk, int) {
	t := l.tail
	if t == nil || t.used+n > len(t.b.B) {
		if t != nil && t.live == 0 && n <= len(t.b.B) {
			t.used = 0
		} else {
			if t != nil && t.live == 0 {
				t.b.Release()
			}
			l.next = min(max(l.next*2, minChunk), maxChunk)
			t = &chunk{b: l.pool.Get(max(l.next, n))}
			l.tail = t
		}
	}
	off := t.used
	t.used += n
	t.live++
	return t, off
}

// drop takes one message out of a chunk.
func (l *log) drop(c *chunk) {
	c.live--
	switch {
	case c.live > 0:
	case c == l.tail:
		c.used = 0
	default:
		c.b.Release()
		c.b = nil
	}
}

// part gives up the chunk at hand, in which another path may now have messages.
func (l *log) part() {
	if l.tail != nil && l.tail.live == 0 {
		l.tail.b.Release()
	}
	l.tail = nil
}

// shrink gives an idle log's memory back.
func (l *log) shrink() {
	if l.tail != nil && l.tail.live == 0 {
		l.tail.b.Release()
		l.tail, l.next = nil, 0
	}
}
