package conn

import "time"

// surveys is how often the peer is asked on each link before the link is left. When it
// has answered once, nothing that it had begun to write is under way any more; when it has
// answered again, our acknowledgements of that have arrived.
const surveys = 2

// Retire begins the end. From now on no link is dialed. Links that the peer has made, or
// whose dial is under way, are put to use all the same: the peer may have sent something
// on them that TCP has acknowledged. Every link that is up, or comes up later, is
// surveyed: probes follow our congestion map. A peer that holds back what is for congested
// ports has nothing for them under way when it answers: its answer follows what it had
// begun to write before. The owner marks all ports congested first (Config.LocalMap,
// MapChanged), and asks Retired when it is over.
func (c *Conn) Retire() {
	if c.closed || c.retired {
		return
	}
	c.retired = true
	for i := range c.paths {
		if p := &c.paths[i]; p.state == Up {
			c.survey(p)
		}
	}
}

func (c *Conn) survey(p *path) {
	p.mapPending, p.probe = true, true
	p.survey = p.probes + 1
	p.surveys++
	c.act(Action{Kind: Transmit, Path: p.index})
}

// Retired tells whether the surveys of all links that are up are answered, no operation is
// under way, and no link waits for its path.
func (c *Conn) Retired() bool {
	for i := range c.paths {
		if p := &c.paths[i]; p.state == Up && (p.surveys < surveys || p.answers < p.survey || p.pending > 0) {
			return false
		}
	}
	return len(c.held) == 0
}

// Dialing tells whether a link is being dialed on which the peer might send.
func (c *Conn) Dialing() bool {
	for i := range c.paths {
		if c.paths[i].dialing && c.connector() {
			return true
		}
	}
	return false
}

// Depart ends all links as Leave does, for good: none is dialed or taken any more. What
// is queued stays where it is. The owner calls Close when the links have ended.
func (c *Conn) Depart() {
	if c.closed || c.departed {
		return
	}
	c.retired, c.departed = true, true
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
