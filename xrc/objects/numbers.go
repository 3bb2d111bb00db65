package objects

import "time"

// numbers gives out the numbers of one kind. A number that comes back rests: it
// is given out again when Config.Rest is over or Config.RestCount allocations
// later, whichever is first, the longest at rest before all others. So that few
// are ever in use, a number that has rested goes before one never used; the
// list of those at rest is then never longer than most were live at once and
// RestCount together. Under Device.mu.
type numbers struct {
	first, limit uint32 // limit is the first number beyond
	next         uint32 // the first number never given out
	rest         time.Duration
	count        uint64
	given        uint64 // allocations so far
	resting      []resting
	head         int // start of the queue within resting
}

type resting struct {
	number uint32
	since  time.Time
	given  uint64
}

func (n *numbers) init(first, limit uint32, c *Config) {
	*n = numbers{first: first, limit: limit, next: first, rest: c.Rest, count: uint64(c.RestCount)}
}

// take returns a number; false if all are in use or at rest.
func (n *numbers) take(now time.Time) (uint32, bool) {
	if n.head < len(n.resting) {
		if r := &n.resting[n.head]; now.Sub(r.since) >= n.rest || n.given-r.given >= n.count {
			n.head++
			n.given++
			number := r.number
			n.compact()
			return number, true
		}
	}
	if n.next == n.limit {
		return 0, false
	}
	n.next++
	n.given++
	return n.next - 1, true
}

func (n *numbers) give(number uint32, now time.Time) {
	n.resting = append(n.resting, resting{number, now, n.given})
}

// compact drops what was taken off the front, once it is half of the list.
func (n *numbers) compact() {
	if n.head < 1024 && n.head < len(n.resting) || n.head < len(n.resting)/2 {
		return
	}
	left := copy(n.resting, n.resting[n.head:])
	n.resting, n.head = n.resting[:left], 0
}

func (n *numbers) atRest() int { return len(n.resting) - n.head }
