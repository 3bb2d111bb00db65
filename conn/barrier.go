package conn

import "time"

// Before the handshake all messages take path 0, after it most take others,
// and nothing orders two links: that a peer's TCP has acknowledged path 0's
// messages does not mean that its RDS has delivered them. So new messages on
// the other paths wait behind a barrier until a probe that followed the early
// messages on path 0 is answered. (Linux since a1f53d5fb6b2 waits for the
// acknowledgements; older ones do not wait.)

// setBarrier makes other paths wait for what path 0 has been given so far.
func (c *Conn) setBarrier(now time.Time) {
	p := &c.paths[0]
	c.barrier, c.fence = p.q.tail, 0
	if c.barrier == 0 {
		return // path 0 has no messages but those held back
	}
	c.fenceBy = now.Add(c.cfg.ProofTimeout)
	c.fencePath(p)
	if p.state == Up && p.probe {
		c.act(Action{Kind: Transmit, Path: 0})
	}
}

// fencePath asks for the probe that lifts the barrier, once what it is to
// follow has been written on the present link.
func (c *Conn) fencePath(p *path) {
	if p.index == 0 && c.barrier > 0 && c.fence == 0 && p.q.next >= c.barrier {
		p.probe = true
	}
}

// answered takes the answer to a probe on p. One that is repeated may belong
// to a probe of an earlier link.
func (c *Conn) answered(p *path) {
	p.answers = min(p.answers+1, p.probes)
	p.probeAt = time.Time{}
	c.respond(p)
	if c.retired && p.state == Up && p.surveys < surveys && p.answers >= p.survey {
		c.survey(p)
	}
	if p.index == 0 && c.fence > 0 && p.answers >= c.fence {
		c.liftBarrier()
	}
}

// fenceTimeout gives up on a peer that does not answer probes. One that has answered
// on this link is asked again: it may have paused the link, with the messages that
// the barrier is for still in its kernel.
func (c *Conn) fenceTimeout(now time.Time) {
	p := &c.paths[0]
	if c.barrier == 0 || c.fenceBy.IsZero() || c.fenceBy.After(now) {
		return
	}
	switch {
	case p.q.first < c.barrier:
	case p.answers == 0:
		c.liftBarrier()
		return
	case p.state == Up:
		c.fence, p.probe = 0, true
		c.act(Action{Kind: Transmit, Path: 0})
	default: // the next link is asked
		c.fenceBy = time.Time{}
		return
	}
	c.fenceBy = now.Add(c.cfg.ProofTimeout)
}

// liftBarrier lets the other paths go.
func (c *Conn) liftBarrier() {
	c.barrier, c.fence = 0, 0
	for i := 1; i < c.used(); i++ {
		if p := &c.paths[i]; p.state == Up && p.ready(c) {
			c.act(Action{Kind: Transmit, Path: i})
		}
	}
}
