package conn

import "time"

// A message may have a time limit: if it was not picked for transmission by its deadline
// it ends with Expired, wherever it waits: for a link, behind others, or held back. One
// that was picked goes on. Messages without a limit pay nothing; the deadline of another
// one is where its sequence number will be.

// Limits is when messages are to be looked through for those past their deadlines. Those
// are found late by expireSlack at most, and by expireCost for each message that waits:
// looking through them takes a hundredth of that.
type Limits struct {
	next  time.Time // earliest time at which some deadline may have passed, but not before after; zero: no message has a deadline
	after time.Time // no look before this time, because looking costs
}

const (
	expireSlack = time.Millisecond
	expireCost  = time.Microsecond
)

// Note says that a message has a deadline.
func (l *Limits) Note(deadline time.Time) {
	if deadline.Before(l.after) {
		deadline = l.after
	}
	if l.next.IsZero() || deadline.Before(l.next) {
		l.next = deadline
	}
}

// Next is when to look; zero means never.
func (l *Limits) Next() time.Time { return l.next }

// Due tells whether to look now.
func (l *Limits) Due(now time.Time) bool { return !l.next.IsZero() && !l.next.After(now) }

// Looked says that n messages were looked through. The deadlines of those that go on
// waiting are noted afterwards, or the earliest one.
func (l *Limits) Looked(now time.Time, n int) {
	l.next, l.after = time.Time{}, now.Add(expireSlack+time.Duration(n)*expireCost)
}

// limitLast gives the message that was queued last its deadline. It is false if that has
// passed: then the message has ended.
func (c *Conn) limitLast(now time.Time, p *path, deadline time.Time) bool {
	last := p.q.tail - 1
	if !deadline.After(now) {
		c.settle(p, last, p.q.tail, func(*entry) (Status, bool) { return Expired, true })
		return false
	}
	if c.limitBase.IsZero() {
		c.limitBase = now
	}
	e := p.q.at(last)
	e.flags |= entryLimited
	e.seq = uint64(deadline.Sub(c.limitBase))
	c.limits.Note(deadline)
	return true
}

// expireMessages ends the messages whose deadline has passed.
func (c *Conn) expireMessages(now time.Time) {
	if !c.limits.Due(now) {
		return
	}
	passed, looked := int64(now.Sub(c.limitBase)), 0
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
	c.limits.Looked(now, looked)
	if some {
		c.limits.Note(c.limitBase.Add(time.Duration(soonest)))
	}
}
