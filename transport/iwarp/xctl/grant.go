package xctl

import "time"

// CreditDelay is how long a CREDIT waits for company.
const CreditDelay = 100 * time.Microsecond

// Grant lets the sender use a window of further messages. What was granted stays
// so; granting one buffer to several connections is meant, the message that meets
// an empty queue is offered again. Grant is called when buffers are posted and
// when messages have come.
func (r *Receiver) Grant(window uint32) {
	r.window = min(window, r.cfg.window)
	if r.window == 0 {
		return
	}
	r.raise(r.consumed() + r.window)
	if r.discard {
		r.raise(r.stopAt + 1) // whatever the sender knew, this is more
	}
}

// Credit returns the CREDIT that is due, if one is: the sender has used half of
// its window, half a window of messages is to be acknowledged, a stopped sender
// has to hear of buffers, or CreditDelay has passed since there was something to
// say. It is called after each burst of segments.
func (r *Receiver) Credit(now time.Time) (c Credit, due bool) {
	c = Credit{r.srq, r.acked, r.limit}
	if c == r.told {
		return c, false
	}
	if r.since.IsZero() {
		r.since = now
	}
	half := r.window / 2
	switch {
	case r.discard && c.Limit != r.told.Limit && after(c.Limit, r.stopAt):
	case c.Limit != r.said.Limit && !after(r.said.Limit, r.consumed()+half):
	case c.Delivered-r.said.Delivered > half:
	case now.Sub(r.since) >= CreditDelay:
		r.told, r.since = c, time.Time{}
		return c, true
	default:
		return c, false
	}
	r.told, r.since = c, time.Time{}
	r.Said()
	return c, true
}

// Said notes that the last CREDIT leaves at once. One that is due for its time alone may wait for
// company, so that it does not count as heard before.
func (r *Receiver) Said() { r.said = r.told }

// Unsaid is how many messages are delivered that the sender may not have heard of.
func (r *Receiver) Unsaid() uint32 { return r.acked - r.said.Delivered }
