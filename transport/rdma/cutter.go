package rdma

import (
	"encoding/binary"

	"github.com/rds-go/rds/internal/wire"
)

// cutter finds where messages end in the stream that Writev is given. Its state
// follows what was taken.
type cutter struct {
	at    cutState // where the stream stands
	bufs  [][]byte // from the position cut has come to
	off   int
	pos   int
	walk  cutState
	marks []cutMark // the segments offered in this Writev
}

// cutState is a place in the stream of messages.
type cutState struct {
	left int // bytes of the message at hand to come, if its header is known
	have int // else bytes of its header that have gone by
	raw  [lengthEnd]byte
}

type cutMark struct {
	end   int
	state cutState
}

const (
	lengthOff = 8 + 8 // of the payload's length in a header
	lengthEnd = lengthOff + 4
)

func (s *cutState) boundary() bool { return s.left == 0 && s.have == 0 }

func (c *cutter) begin(bufs [][]byte) {
	c.bufs, c.off, c.pos, c.walk, c.marks = bufs, 0, 0, c.at, c.marks[:0]
}

// end says that n bytes were taken, which is where a segment ends.
func (c *cutter) end(n int) {
	c.bufs = nil
	for i := range c.marks {
		if c.marks[i].end == n {
			c.at = c.marks[i].state
		}
	}
}

// cut is an iwarp.Cut: as many whole messages as fit, or as much as fits of one.
func (c *cutter) cut(pos, room int) (n int, last bool) {
	var (
		s     = c.walk
		bufs  = c.bufs
		off   = c.off
		end   = pos
		limit = pos + room
		best  = cutMark{end: -1}
		bestB [][]byte
		bestO int
	)
	for end < limit && len(bufs) > 0 {
		b := bufs[0][off:]
		if len(b) == 0 {
			bufs, off = bufs[1:], 0
			continue
		}
		step := 0
		switch {
		case s.left > 0:
			step = min(s.left, len(b), limit-end)
			s.left -= step
		case s.have == 0 && len(b) >= wire.HeaderSize:
			total := wire.HeaderSize + int(binary.BigEndian.Uint32(b[lengthOff:]))
			if end+total > limit && best.end >= 0 {
				c.take(best, bestB, bestO)
				return best.end - pos, true
			}
			step = min(total, len(b), limit-end)
			s.left = total - step
		default: // a header in parts
			step = min(lengthEnd-s.have, len(b), limit-end)
			copy(s.raw[s.have:], b[:step])
			if s.have += step; s.have == lengthEnd {
				s.left = wire.HeaderSize - lengthEnd + int(binary.BigEndian.Uint32(s.raw[lengthOff:]))
				s.have = 0
			}
		}
		end += step
		off += step
		if s.boundary() {
			best, bestB, bestO = cutMark{end, s}, bufs, off
		}
	}
	if best.end >= 0 {
		// A message that does not fit begins a Send of its own.
		c.take(best, bestB, bestO)
		return best.end - pos, true
	}
	c.take(cutMark{end, s}, bufs, off)
	return end - pos, false
}

func (c *cutter) take(m cutMark, bufs [][]byte, off int) {
	c.walk, c.bufs, c.off = m.state, bufs, off
	c.marks = append(c.marks, m)
}
