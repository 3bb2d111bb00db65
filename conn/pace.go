package conn

import (
	"sync/atomic"
	"time"
)

// Pace spaces the dials of many connections whose peers cannot be reached, so that those, however many,
// take little from the others. Connections share it.
type Pace struct {
	begin time.Time
	next  atomic.Int64 // time behind begin of the first slot that nobody has
}

const (
	pace      = 4 * time.Millisecond // between two slots
	paceBurst = time.Second          // how long slots that nobody has had are kept
	paceMost  = time.Minute          // how long a slot is waited for at most
)

// NewPace begins at a time that is none of its users' yet.
func NewPace(now time.Time) *Pace { return &Pace{begin: now} }

// slot takes the next slot, and is when it or the given time is, whichever is later.
func (p *Pace) slot(now, at time.Time) time.Time {
	since := int64(now.Sub(p.begin))
	for {
		next := p.next.Load()
		mine := min(max(next, since-int64(paceBurst)), since+int64(paceMost))
		if p.next.CompareAndSwap(next, mine+int64(pace)) {
			if t := p.begin.Add(time.Duration(mine)); t.After(at) {
				return t
			}
			return at
		}
	}
}
