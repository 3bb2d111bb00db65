package conn

// Leave ends the link of path i, so that the next one may be of another transport:
// nothing more is picked, what is partly written is written to its end, and then the
// link drains (CloseLink). LinkClosed follows when what the peer has sent is delivered
// and the final acknowledged count is known; a connector dials only then. Messages that
// are not acknowledged by then go out on the next link, flagged RETRANSMITTED; those
// whose operations have begun end with Dropped.
func (c *Conn) Leave(i int) {
	if p := &c.paths[i]; !c.closed && p.state == Up {
		p.leaving = true
		c.leave(p)
	}
}

// leave ends the link of a path that is leaving, once nothing is partly written.
func (c *Conn) leave(p *path) {
	if p.leaving && p.state == Up && !p.filling && !p.begun() {
		p.must(Disconnecting)
		c.act(Action{Kind: CloseLink, Link: p.link})
	}
}

// begun tells whether part of a message is on the link, or an operation whose message
// is still to follow.
func (p *path) begun() bool { return p.nextOff > 0 || p.bound || len(p.control) > 0 }
