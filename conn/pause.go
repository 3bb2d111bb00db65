package conn

import "time"

// Paused says that path i's link, if it is link, is not read for now, since a message
// that came on it has no room, or with on unset that it is read again. What the peer
// sent on it was acknowledged, and is still to be received. So links that wait for the
// path wait as long as it is paused, not HoldTimeout only, one behind the other: what
// came on each of them may be acknowledged, too.
func (c *Conn) Paused(i int, link LinkID, on bool) {
	if p := &c.paths[i]; p.link == link {
		p.paused = on
	}
}

// delayed tells whether h waits for a path that is paused. A link that waits to be
// told apart from path 0 waits for an answer on path 0.
func (c *Conn) delayed(h *heldLink) bool { return c.paths[max(0, h.path)].paused }

// follow asks the link that p has just got when another one waits for p already: the
// peer may have given it up.
func (c *Conn) follow(now time.Time, p *path) {
	for k := range c.held {
		if c.held[k].path == p.index {
			c.challenge(now, p)
			return
		}
	}
}

// linger has h wait for another HoldTimeout.
func (c *Conn) linger(now time.Time, h heldLink) {
	h.until = now.Add(c.cfg.HoldTimeout)
	c.held = append(c.held, h)
}
