package conn

import "time"

// A message may have a time limit: if it was not picked for transmission by its deadline
// it ends with Expired, wherever it waits: for a link, behind others, or held back. One
// that was picked goes on. Messages without a limit pay nothing; the deadline of another
// one is where its sequence number will be.

// limits is when messages are to be looked through for those past their deadlines.
type limits struct {
	base  time.Time // deadline of the first message; the deadlines of entries count from it
	next  time.Time // earliest time at which some deadline may have passed, but not before after; zero: no message has a deadline
	after time.Time // no look before this time, because looking costs
}

// Expired messages are found late by expireSlack at most, and by expireCost for each
// message that waits: looking through them takes a hundredth of that.
const (
	expireSlack = time.Millisecond
	expireCost  = time.Microsecond
)

// limitLast gives the message that was queued last its deadline.
func (c *Conn) limitLast(p *path, deadline time.Time) {
	l := &c.limits
	if l.base.IsZero() {
		l.base = deadline
	}
	e := p.q.at(p.q.tail - 1)
	e.flags |= entryLimited
	e.seq = uint64(deadline.Sub(l.base))
	if deadline.Before(l.after) {
		deadline = l.after
	}
	if l.next.IsZero() || deadline.Before(l.next) {
		l.next = deadline
	}
}

// expireMessages ends the messages whose deadline has passed.
func (c *Conn) expireMessages(now time.Time) {
	l := &c.limits
	if l.next.IsZero() || l.next.After(now) {
		return
	}
	passed, looked := int64(now.Sub(l.base)), 0
	soonest, some := int64(0), false
	due := func(e *entry) bool {
		looked++
		if e.flags&(entryLimited|entryCanceled) != entryLimited {
			return false
		}
		at := int64(e.seq)
		if at <= passed {
			return true
		}
		if !some || at < soonest {
			soonest, some = at, true
		}
		return false
	}
	for i := range c.paths {
		p := &c.paths[i]
		q := &p.q
		if len(p.shelf.list) > 0 {
			c.unshelve(p, due)
		}
		c.settle(p, q.fresh, q.tail, func(e *entry) (Status, bool) { return Expired, due(e) })
		c.fencePath(p) // the barrier may have waited for a message that has expired
		if p.state == Up && p.ready(c) {
			c.act(Action{Kind: Transmit, Path: i})
		}
	}
	l.next, l.after = time.Time{}, now.Add(expireSlack+time.Duration(looked)*expireCost)
	if some {
		if l.next = l.base.Add(time.Duration(soonest)); l.next.Before(l.after) {
			l.next = l.after
		}
	}
}
