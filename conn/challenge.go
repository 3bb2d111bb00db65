package conn

import "time"

// An inbound link for a path that is up may be the peer's, whose end of the present link is
// gone, or an impostor's. So the present link is asked, by a probe, and goes on if it lives:
// if the probe is answered, or something still arrives, within Config.AskTimeout. The waiting
// link is then refused: whoever is the peer has no need of it. A host that knows nothing of
// the present link answers the probe with a reset, which ends the present link at once.

// challenge asks the link of p, unless it is being asked.
func (c *Conn) challenge(now time.Time, p *path) {
	if p.asked != 0 {
		return
	}
	p.probe = true
	p.asked, p.askedBy, p.heard = p.probes+1, now.Add(c.cfg.AskTimeout), time.Time{}
	c.asks |= 1 << p.index
	c.act(Action{Kind: Transmit, Path: p.index})
}

// Asks tells which paths' links are being asked whether they live: bit i is path i's. The
// owner calls Heard when something arrives on such a link.
func (c *Conn) Asks() uint8 { return c.asks }

// unask ends the question.
func (c *Conn) unask(p *path) {
	p.asked, p.askedBy, p.heard = 0, time.Time{}, time.Time{}
	c.asks &^= 1 << p.index
}

// Heard says that something has arrived on path i's link, which is read for the most part
// as soon as it comes. A queue of messages may be in front of the answer to a probe.
func (c *Conn) Heard(now time.Time, i int) { c.paths[i].heard = now }

// lives tells whether the link of p has brought something not long ago. What had arrived
// when p was asked proves nothing, and is read in the first half of Config.AskTimeout.
func (c *Conn) lives(p *path) bool {
	return !p.heard.IsZero() && p.heard.After(p.askedBy.Add(-c.cfg.AskTimeout/2))
}

// respond takes an answer of p's link.
func (c *Conn) respond(p *path) {
	if p.asked != 0 && p.answers >= p.asked {
		c.vindicate(p)
	}
}

// vindicate refuses the links that wait for p, whose link lives, and ends those that
// contradict that link.
func (c *Conn) vindicate(p *path) {
	c.unask(p)
	c.denyClaims(p)
	kept := c.held[:0]
	for _, h := range c.held {
		if h.path == p.index {
			c.refuse(h.link)
		} else {
			kept = append(kept, h)
		}
	}
	c.held = kept
}

// judge ends the wait for links that did not answer.
func (c *Conn) judge(now time.Time) {
	for i := range c.paths {
		p := &c.paths[i]
		switch due := p.asked != 0 && !p.askedBy.After(now); {
		case !due:
		case p.state != Up:
			c.unask(p)
		case p.paused: // nothing can be heard of it
			p.askedBy = now.Add(c.cfg.AskTimeout)
		case c.lives(p):
			c.vindicate(p)
		}
	}
	for i := range c.paths { // when those that live have spoken for others
		if p := &c.paths[i]; p.asked != 0 && !p.askedBy.After(now) {
			c.supersede(now, p)
		}
	}
	c.grantClaims(now)
}

// supersede ends the link of p, which does not answer, if another one waits for p, or
// contradicts that link. It is read to its end first.
func (c *Conn) supersede(now time.Time, p *path) {
	c.unask(p)
	if p.agrees && p.state == Up && c.claimed() {
		p.must(Resetting)
		c.act(Action{Kind: CloseLink, Link: p.link})
	}
	for k := range c.held {
		if h := &c.held[k]; h.path == p.index || h.path < 0 && c.npaths == 0 {
			h.until = now.Add(c.cfg.HoldTimeout)
			if p.state == Up {
				p.must(Resetting)
				c.act(Action{Kind: CloseLink, Link: p.link})
			}
		}
	}
}
