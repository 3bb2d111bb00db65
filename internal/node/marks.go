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
type portMarks struct {
	last  *wire.CongestionMap  // marks of the last update; nil: no port is marked
	since map[uint16]time.Time // when each marked port was marked
}

// update takes the ports that are marked now; nil means none.
func (m *portMarks) update(now time.Time, marked *wire.CongestionMap) {
	if marked == nil {
		m.last, m.since = nil, nil
		return
	}
	if m.last == nil {
		m.last, m.since = new(wire.CongestionMap), make(map[uint16]time.Time)
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
