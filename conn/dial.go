package conn

import "time"

// wantLink is called when a message waits on a path without a link
// (net/rds/connection.c, rds_conn_path_connect_if_down). A connector dials;
// an acceptor knocks, on path 0 only. Neither disturbs a back-off under way.
func (c *Conn) wantLink(now time.Time, p *path) {
	if c.Connector() {
		if p.state == Down {
			c.dialNext(now)
		}
		return
	}
	if p := &c.paths[0]; p.state == Down && !p.dialing && p.redialAt.IsZero() {
		c.dial(p)
	}
}

// dialNext dials the lowest path that is down and due. One at a time, and the
// next only when the peer's RDS has shown that it took the last: Linux 6.1
// gives inbound links to its paths in the order of their arrival, and a
// permutation would compare retransmissions with the wrong receive sequence.
func (c *Conn) dialNext(now time.Time) {
	if !c.Connector() || c.closed {
		return
	}
	var next *path
	for i := range c.paths[:c.used()] {
		p := &c.paths[i]
		switch {
		case p.dialing || p.state == Connecting, p.state == Up && !p.proved:
			return
		case next == nil && p.state == Down && !p.redialAt.After(now) && c.wanted(p):
			next = p
		}
	}
	if next != nil {
		c.dial(next)
	}
}

// wanted tells whether a path should have a link: always once it had one or
// the handshake agreed on it, before that when there is something to send.
func (c *Conn) wanted(p *path) bool {
	return p.resets > 0 || c.npaths > 0 || !p.redialAt.IsZero() || c.waiting() || c.invited
}

func (c *Conn) dial(p *path) {
	p.must(Connecting)
	p.dialing, p.redialAt = true, time.Time{}
	c.act(Action{Kind: Dial, Path: p.index})
}

// schedule sets the next attempt of a path: after the minimum plus a random
// part of a window that doubles with each failure (net/rds/threads.c,
// rds_queue_reconnect, which has no minimum).
func (c *Conn) schedule(now time.Time, p *path) {
	delay := c.cfg.ReconnectMin
	if p.window > 0 {
		delay += time.Duration(c.cfg.Rand.Int64N(int64(p.window)))
	}
	p.window = min(max(2*p.window, c.cfg.ReconnectMin), c.cfg.ReconnectMax)
	p.redialAt = now.Add(delay)
}
