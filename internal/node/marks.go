package node

import (
	"encoding/binary"
	"math/bits"
	"time"

	"github.com/rds-go/rds/internal/wire"
)

// portMarks is since when ports of a peer take no messages, because the peer's congestion
// map marks them or they are held. The lock of the peer guards it. It follows each change of either, not
// each message.
//
// It has a time for each of maxMarks ports. If more change at once, or are marked, all that are marked
// by then count as marked since then: a peer whose maps change everywhere costs no more than others.
type portMarks struct {
	last  *wire.CongestionMap  // marks of the last update; nil: no port is marked
	since map[uint16]time.Time // when each of the ports marked last was marked
	all   time.Time            // when all marked ports were marked that since does not have
}

// maxMarks is a few times what applications wait for at one peer.
const maxMarks = 256

// update takes the ports that are marked now; nil means none.
func (m *portMarks) update(now time.Time, marked *wire.CongestionMap) {
	if marked == nil {
		m.last, m.since = nil, nil
		return
	}
	if m.last == nil {
		m.last, m.since, m.all = new(wire.CongestionMap), make(map[uint16]time.Time), now
	}
	if n := m.changes(marked); n > maxMarks || n+len(m.since) > 2*maxMarks {
		clear(m.since)
		*m.last, m.all = *marked, now
		return
	}
	for i := 0; i < len(marked); i += 8 {
		is, was := binary.LittleEndian.Uint64(marked[i:]), binary.LittleEndian.Uint64(m.last[i:])
		for changed := is ^ was; changed != 0; changed &= changed - 1 {
			bit := bits.TrailingZeros64(changed)
			if port := uint16(8*i + bit); is&(1<<bit) != 0 {
				m.since[port] = now
			} else {
				delete(m.since, port)
			}
		}
	}
	*m.last = *marked
}

// changes counts the ports that marked has otherwise than the last update.
func (m *portMarks) changes(marked *wire.CongestionMap) (n int) {
	for i := 0; i < len(marked); i += 8 {
		n += bits.OnesCount64(binary.LittleEndian.Uint64(marked[i:]) ^ binary.LittleEndian.Uint64(m.last[i:]))
	}
	return n
}

// any tells whether a port is marked.
func (m *portMarks) any() bool { return m.last != nil && *m.last != wire.CongestionMap{} }

// at is when a port was marked, zero if it is not.
func (m *portMarks) at(port uint16) time.Time {
	if m.last == nil || !m.last.Congested(port) {
		return time.Time{}
	}
	if at, ok := m.since[port]; ok {
		return at
	}
	return m.all
}
