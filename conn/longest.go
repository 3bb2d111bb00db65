package conn

import (
	"errors"

	"github.com/rds-go/rds/internal/wire"
)

// A peer may take shorter messages than RDS allows. It says so in the set-up of a link, or in its
// probes and pongs. From then on Enqueue refuses longer messages, and those that the present links
// have not begun end with TooLong. What a link has begun by then the peer drops, and its transport
// acknowledges: over TCP no such message ends before the peer has spoken on the link that carries it.

// ErrTooLong: the message is longer than the peer takes (Longest).
var ErrTooLong = errors.New("conn: message longer than the peer takes")

// everybodyTakes is how long messages may be that every node takes.
const everybodyTakes = wire.CongestionMapSize

// Longest is the longest payload that the peer takes, as far as that is known.
func (c *Conn) Longest() wire.Limit { return c.longest }

// Takes says what the set-up of path i's new link has told: the longest payload that the peer takes. Where
// another link has stated what is known, this one is not believed before the peer's first probe or pong on it.
func (c *Conn) Takes(i int, l wire.Limit) {
	if p := &c.paths[i]; !c.rivaled(p) {
		c.takes(p, l)
	}
}

// takes follows the peer's word on p's link, if that is up. A process says the same on all its links: what
// an older link says than the one that has spoken last is out of date.
func (c *Conn) takes(p *path, l wire.Limit) {
	if p.state != Up {
		return
	}
	if l != c.longest && p.born >= c.longestBorn {
		c.longest, c.longestBorn = l, p.born
		for i := range c.paths {
			c.endLong(&c.paths[i])
		}
	} else {
		c.endLong(p) // what an earlier link had is queued again
	}
	if !p.mute {
		return
	}
	if q := &p.q; !c.unlimited() { // what this link has carried, or is about to, the peer drops
		end := q.next
		switch {
		case p.filling && len(p.control) == 0:
			end = max(end, p.shown)
		case p.nextOff > 0:
			end++
		}
		for pos := q.first; pos < end; pos++ {
			if e := q.at(pos); c.long(e) {
				e.drop()
			}
		}
	}
	c.unmute(p)
}

// unmute has all acknowledgements of p's link count: the peer has said what it takes, or nothing for
// Config.ProofTimeout, as Linux where pings are turned off.
func (c *Conn) unmute(p *path) {
	p.mute = false
	c.settleAcked(p)
}

// drop notes that the peer drops a message that was written on the present link, too. What was written
// on an earlier one, that one's peer may have taken.
func (e *entry) drop() {
	if e.flags&entryRetrans != 0 {
		e.flags |= entryUnknown
	} else {
		e.flags |= entryLong
	}
}

func (c *Conn) unlimited() bool { return c.longest.Octets() >= wire.MaxPayload }

// long tells whether the peer does not take a message.
func (c *Conn) long(e *entry) bool { return int(e.length) > c.longest.Octets() }

// endLong ends the messages of p that are too long for the peer and not begun on a link. Those that a
// Fill has shown wait for Wrote.
func (c *Conn) endLong(p *path) {
	q := &p.q
	if c.unlimited() || q.len()+len(p.shelf.list) == 0 {
		return
	}
	if len(p.shelf.list) > 0 {
		c.unshelve(p, c.long)
	}
	from := q.next
	switch {
	case p.filling:
		p.tooLong = true
		from = q.fresh
	case p.state == Down || p.state == Connecting:
		from = q.first
	case p.nextOff > 0 || p.bound:
		from++
	}
	c.settle(p, from, q.tail, func(e *entry) (Status, bool) {
		switch {
		case !c.long(e):
			return 0, false
		case e.flags&entryCanceled != 0:
			return Canceled, true
		case e.flags&entryWritten != 0: // on an earlier link, whose peer may have taken it
			return Dropped, true
		}
		return TooLong, true
	})
	c.fencePath(p) // the barrier may have waited for one of them
	if p.state == Up && p.ready(c) {
		c.act(Action{Kind: Transmit, Path: p.index})
	}
}

// unspoken is the link offset up to which acknowledgements count while the peer has not spoken on p's
// link: that of the first message that not every node takes.
func (p *path) unspoken(acked uint64) uint64 {
	q := &p.q
	for pos := q.first; pos < q.next; pos++ {
		e := q.at(pos)
		if e.end > acked {
			break
		}
		if e.flags&entryHole == 0 && int(e.length) > everybodyTakes {
			return e.end - uint64(e.size())
		}
	}
	return acked
}
