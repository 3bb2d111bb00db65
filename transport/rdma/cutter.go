package rdma

import (
	"encoding/binary"

	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
)

// cutter finds where messages end in the stream that Writev is given, and whose they
// are. Its state follows what was taken.
type cutter struct {
	routes *routes
	at     cutState // position in the stream
	walk   cutPlace // position that cut has come to
	marks  []cutPlace
}

// cutState is what is known at a place of the stream.
type cutState struct {
	left  int    // bytes of the message at hand to come, if its header is known
	have  int    // bytes of the message's header that have gone by, while it is not whole
	queue uint32 // queue of the message at hand, or of the last message
	raw   [headerPart]byte
}

// cutPlace is a place in the slices at hand.
type cutPlace struct {
	pos   int
	bufs  [][]byte
	off   int // offset in bufs[0]
	state cutState
}

const (
	lengthOff  = 8 + 8             // offset of the payload's length in a header
	portOff    = lengthOff + 4 + 2 // offset of the destination port in a header
	headerPart = portOff + 2
)

func (s *cutState) boundary() bool { return s.left == 0 && s.have == 0 }

func (c *cutter) begin(bufs [][]byte) {
	c.walk = cutPlace{bufs: bufs, state: c.at}
	c.marks = append(c.marks[:0], c.walk)
}

// end says that n bytes were taken, which is where a segment ends.
func (c *cutter) end(n int) {
	c.back(n)
	c.at = c.walk.state
	c.walk.bufs = nil
	clear(c.marks[:cap(c.marks)])
}

// back returns to a place where a segment was cut: what followed was not taken.
func (c *cutter) back(pos int) {
	for i := len(c.marks) - 1; c.walk.pos != pos; i-- {
		c.walk = c.marks[i]
		c.marks = c.marks[:i+1]
	}
}

// cut is an iwarp.Cut: as many whole messages to one queue as fit, or as much as fits
// of one. A Send that carries one message in several segments carries no other, for the
// peer may refuse it. A message whose header does not show its port yet goes to the
// first queue.
func (c *cutter) cut(pos, room int) (n int, last bool, queue uint32) {
	c.back(pos)
	var (
		p     = c.walk
		s     = &p.state
		limit = pos + room
		rest  = !s.boundary()
		best  = cutPlace{pos: -1}
	)
	for p.pos < limit && len(p.bufs) > 0 {
		b := p.bufs[0][p.off:]
		if len(b) == 0 {
			p.bufs, p.off = p.bufs[1:], 0
			continue
		}
		step := 0
		switch {
		case s.left > 0:
			step = min(s.left, len(b), limit-p.pos)
			s.left -= step
		case s.have == 0 && len(b) >= wire.HeaderSize:
			total := wire.HeaderSize + int(binary.BigEndian.Uint32(b[lengthOff:]))
			to := c.routes.queue(binary.BigEndian.Uint16(b[portOff:]))
			if best.pos >= 0 && (p.pos+total > limit || to != s.queue) {
				return c.take(best, pos)
			}
			step = min(total, len(b), limit-p.pos)
			s.left, s.queue = total-step, to
		default: // a header in parts
			if s.have == 0 {
				to := c.peek(&p)
				if best.pos >= 0 && to != s.queue {
					return c.take(best, pos)
				}
				s.queue = to
			}
			step = min(headerPart-s.have, len(b), limit-p.pos)
			copy(s.raw[s.have:], b[:step])
			if s.have += step; s.have == headerPart {
				s.left = wire.HeaderSize - headerPart + int(binary.BigEndian.Uint32(s.raw[lengthOff:]))
				s.have = 0
			}
		}
		p.pos += step
		p.off += step
		if s.boundary() {
			if best = p; rest {
				break
			}
		}
	}
	if best.pos >= 0 { // a message that does not fit begins a Send of its own
		return c.take(best, pos)
	}
	n, _, queue = c.take(p, pos)
	return n, false, queue
}

// peek is the queue of the message that begins at p, whose header is in parts.
func (c *cutter) peek(p *cutPlace) uint32 {
	var raw [headerPart]byte
	have, off := 0, p.off
	for _, b := range p.bufs {
		have += copy(raw[have:], b[off:])
		if off = 0; have == headerPart {
			return c.routes.queue(binary.BigEndian.Uint16(raw[portOff:]))
		}
	}
	return transport.FirstQueue
}

// take cuts at p, where a message ends.
func (c *cutter) take(p cutPlace, from int) (n int, last bool, queue uint32) {
	c.walk = p
	c.marks = append(c.marks, p)
	return p.pos - from, true, p.state.queue
}
