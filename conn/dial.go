package conn

import "time"

// wantLink is called when a message waits on a path without a link
// (net/rds/connection.c, rds_conn_path_connect_if_down). A connector dials;
// an acceptor knocks, on path 0 only. Neither disturbs a back-off under way.
func (c *Conn) wantLink(now time.Time, p *path) {
	c.hasten(now)
	if c.connector() {
		if p.state == Down {
			c.dialNext(now)
		}
		return
	}
	if p := &c.paths[0]; p.state == Down && !p.dialing && p.redialAt.IsZero() && c.waiting() {
		c.dial(p)
	}
}

// candidate is the path to dial next and when, nil if there is none or if that
// depends on more than the time. One dial at a time, and the next only when the
// peer's RDS has shown that it took the last: Linux 6.1 gives inbound links to
// its paths in the order of their arrival, and a permutation would compare
// retransmissions with the wrong receive sequence. Hence the lowest path goes
// first, unless source ports tell which is which, and none but path 0 goes
// before the peer has answered a probe there: a peer that has just restarted
// does not yet know of other paths, nor of source ports.
func (c *Conn) candidate() (*path, time.Time) {
	if !c.connector() || c.closed || c.retired || c.barred {
		return nil, time.Time{}
	}
	var next *path
	for i := range c.paths[:c.used()] {
		p := &c.paths[i]
		switch {
		case p.dialing || p.state == Connecting, p.state == Up && !p.proved:
			return nil, time.Time{}
		case i > 0 && c.paths[0].state != Up:
		case p.state != Down || !c.wanted(p):
		case next == nil, c.sourceIndex && p.redialAt.Before(next.redialAt):
			next = p
		}
	}
	switch {
	case next == nil:
		return nil, time.Time{}
	case next.index > 0 && c.paths[0].answers < c.verify && c.verifyBy.After(next.redialAt):
		return next, c.verifyBy
	}
	return next, next.redialAt
}

// dialNext dials the path whose turn it is, if it is due.
func (c *Conn) dialNext(now time.Time) {
	if p, at := c.candidate(); p != nil && !at.After(now) {
		c.dial(p)
	}
}

// verifyPeer asks on path 0 whether the peer is still the one we know, after
// another path was lost or could not be dialed.
func (c *Conn) verifyPeer(now time.Time) {
	if p := &c.paths[0]; p.state == Up {
		c.verify, c.verifyBy = p.probes+1, now.Add(c.cfg.ProofTimeout)
		p.probe = true
		c.act(Action{Kind: Transmit, Path: 0})
	}
}

// wanted tells whether a path should have a link: always once it had one or
// the handshake agreed on it, before that when there is something to send. A peer
// that nobody here talks to gets a link on path 0 when it has knocked, or messages wait.
func (c *Conn) wanted(p *path) bool {
	known := p.resets > 0 || c.npaths > 0 || !p.redialAt.IsZero()
	return known && (!c.unneeded || p.index > 0) || c.waiting() || c.invited
}

// Connect asks for a link on path 0, now or as soon as the peer can be reached,
// as a message that waits would.
func (c *Conn) Connect(now time.Time) {
	if p := &c.paths[0]; !c.closed && !c.barred && p.state != Up {
		c.asked = true
		c.wantLink(now, p)
	}
}

func (c *Conn) dial(p *path) {
	if c.retired || c.barred {
		return
	}
	p.must(Connecting)
	p.dialing, p.redialAt = true, time.Time{}
	c.act(Action{Kind: Dial, Path: p.index})
}

// scheduleKnock is for an acceptor whose links are gone while messages wait.
func (c *Conn) scheduleKnock(now time.Time) {
	if p := &c.paths[0]; !c.closed && !c.retired && !c.barred && !c.connector() && p.state == Down && p.redialAt.IsZero() && c.waiting() {
		c.schedule(now, p)
	}
}

// schedule sets the next attempt of a path: after the minimum plus a random
// part of a window that doubles with each failure (net/rds/threads.c,
// rds_queue_reconnect, which has no minimum). A peer that was not reached at once waits for its
// turn among all such peers, one that was lost when its window is at its longest.
func (c *Conn) schedule(now time.Time, p *path) {
	delay, most := c.cfg.ReconnectMin, c.cfg.ReconnectMax
	if p.idle = !c.waiting(); p.idle {
		most = c.cfg.IdleReconnectMax
	}
	p.window = min(p.window, most)
	if p.window > 0 {
		delay += time.Duration(c.cfg.Rand.Int64N(int64(p.window)))
	}
	p.redialAt = now.Add(delay)
	if c.cfg.Pace != nil && (p.window == most || p.resets == 0) {
		if !p.slot.After(now) { // else it has one that it has not used
			p.slot = c.cfg.Pace.slot(now, p.redialAt)
		}
		if p.slot.After(p.redialAt) {
			p.redialAt = p.slot
		}
	}
	p.window = min(max(2*p.window, c.cfg.ReconnectMin), most)
}

// hasten ends the long back-off of paths that had nothing to send: a message waits now.
func (c *Conn) hasten(now time.Time) {
	for i := range c.paths[:c.used()] {
		p := &c.paths[i]
		if !p.idle || !c.waiting() {
			continue
		}
		if p.idle = false; p.window > c.cfg.ReconnectMax && !p.redialAt.IsZero() {
			p.window, p.redialAt = c.cfg.ReconnectMax, now
		}
	}
}

// Need says whether anybody here talks to the peer; before the first call somebody does.
// A peer that nobody talks to is not dialed for what it is owed, which are answers to its
// pings, and not because there was a link: only when it has knocked, or for messages.
func (c *Conn) Need(on bool) { c.unneeded = !on }

// Idle tells whether nothing would be missed if the Conn ended: nobody talks to the peer,
// nothing waits for it, and there is neither a link nor an attempt to make one.
func (c *Conn) Idle() bool {
	if !c.unneeded || c.closed || c.invited || len(c.held) > 0 || c.waiting() {
		return false
	}
	for i := range c.paths {
		if p := &c.paths[i]; p.state != Down || p.dialing || p.link != 0 {
			return false
		}
	}
	return true
}
