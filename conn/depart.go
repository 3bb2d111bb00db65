package conn

import "time"

// Survey asks the peer, on every path that is up, with a probe behind our congestion
// map. A peer that holds back what is for congested ports has nothing for them under
// way when it answers: its answer follows what it had begun to write before. Call
// MapChanged's reason first, Surveyed later.
func (c *Conn) Survey() {
	for i := range c.paths {
		p := &c.paths[i]
		if p.state != Up || c.closed {
			continue
		}
		p.mapPending, p.probe = true, true
		p.survey = p.probes + 1
		c.act(Action{Kind: Transmit, Path: i})
	}
}

// Surveyed tells whether the peer has answered the last Survey on every path that is
// still up.
func (c *Conn) Surveyed() bool {
	for i := range c.paths {
		if p := &c.paths[i]; p.state == Up && p.answers < p.survey {
			return false
		}
	}
	return true
}

// Depart ends all links as Leave does, for good: none is dialed or taken any more. What
// is queued stays where it is. The owner calls Close when the links have ended.
func (c *Conn) Depart() {
	if c.closed || c.departed {
		return
	}
	c.departed = true
	for i := range c.paths {
		p := &c.paths[i]
		p.redialAt = time.Time{}
		if p.dialing {
			c.act(Action{Kind: CancelDial, Path: i})
		}
		c.Leave(i)
	}
	held := c.held
	c.held = nil
	for _, h := range held {
		c.refuse(h.link)
	}
}

// Abandon is Cancel of all messages of an account whose fate stays unknown: those that
// were written may have been delivered.
func (c *Conn) Abandon(a *Account) (messages, bytes int) { return c.cancel(a, 0, true, Dropped) }
