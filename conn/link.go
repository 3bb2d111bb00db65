package conn

import (
	"time"

	"github.com/rds-go/rds/internal/wire"
)

// Dialed says that the dial of path i succeeded with link. A connector puts it
// to use, unless path 0 was lost meanwhile: a peer that has restarted would take
// it for path 0. An acceptor has only knocked: it ends the link without a byte, and
// the peer, now knowing that it is wanted, connects (net/rds/tcp_connect.c,
// rds_tcp_state_change).
func (c *Conn) Dialed(now time.Time, i int, link LinkID) {
	p := &c.paths[i]
	p.dialing = false
	if c.closed || c.departed || c.barred || p.state != Connecting {
		c.act(Action{Kind: CloseLink, Link: link})
		if (c.departed || c.barred) && p.state == Connecting {
			p.must(Down)
		}
		c.scheduleKnock(now)
		return
	}
	if c.connector() && (i == 0 || c.paths[0].state == Up) {
		c.births++
		c.install(now, p, heldLink{link: link, born: c.births}, true)
		return
	}
	c.act(Action{Kind: CloseLink, Link: link})
	p.must(Down)
	c.schedule(now, p)
	c.dialNext(now)
}

// DialFailed says that the dial of path i came to nothing.
func (c *Conn) DialFailed(now time.Time, i int) {
	p := &c.paths[i]
	p.dialing = false
	if c.closed || p.state != Connecting {
		c.scheduleKnock(now)
		return
	}
	p.must(Down)
	c.invited = false
	c.schedule(now, p)
	if c.connector() && i > 0 {
		c.verifyPeer(now)
	}
	c.dialNext(now)
}

// knocked is what the larger side's fresh and useless connection means to the
// smaller one: connect. A path that is up sends a probe, so that a peer
// that lost the connection without our noticing answers with a reset.
func (c *Conn) knocked(now time.Time) {
	p := &c.paths[0]
	switch p.state {
	case Down:
		c.invited = true
		p.redialAt = time.Time{}
		c.dialNext(now)
	case Up:
		p.probe = true
		c.act(Action{Kind: Transmit, Path: 0})
	}
}

// install puts a link to use on a path that has none.
func (c *Conn) install(now time.Time, p *path, h heldLink, outbound bool) {
	p.must(Up)
	p.link, p.outbound, p.proved, p.paused = h.link, outbound, false, false
	p.written, p.acked, p.settled, p.nextOff, p.control, p.controlOff = 0, 0, 0, 0, nil, 0
	p.mapPending, p.probe = true, true
	p.born, p.sport = h.born, h.sport
	p.probes, p.answers, p.mapAt, p.survey, p.surveys = 0, 0, 0, 0, 0
	p.told, p.toldGen = false, 0
	p.unreadTo = 0
	p.agrees, p.claiming, p.met, p.mute, p.unread, p.claim = false, false, false, false, false, wire.Handshake{}
	c.unask(p)
	if c.retired {
		p.survey, p.surveys = 1, 1 // by the first probe
	}
	p.probeAt, p.probeWait = now.Add(probeFirst), probeFirst
	if p.index == 0 {
		if c.fence = 0; c.barrier > 0 && c.fenceBy.IsZero() {
			c.fenceBy = now.Add(c.cfg.ProofTimeout)
		}
		c.verify, c.verifyBy = 1, now.Add(c.cfg.ProofTimeout)
	}
	p.redialAt, p.proveBy = time.Time{}, now.Add(c.cfg.ProofTimeout)
	p.muteBy = p.proveBy
	c.asked, c.invited = false, false
	c.act(Action{Kind: Start, Path: p.index, Link: h.link})
	c.act(Action{Kind: Transmit, Path: p.index})
}

// LinkFailed says that writing to link failed: nothing more goes out on it.
// What the peer sent before is still to be received; LinkClosed follows.
func (c *Conn) LinkFailed(link LinkID) {
	for i := range c.paths {
		if p := &c.paths[i]; p.link == link && p.state == Up {
			p.must(Error)
			c.act(Action{Kind: CloseLink, Link: link})
		}
	}
}

// LinkClosed says that link has ended, everything it received was delivered,
// and the peer acknowledged acked bytes of what it took. It must not come
// between Fill and Wrote. What was written and is not acknowledged goes back
// to the front of the queue (net/rds/send.c, rds_send_path_reset).
func (c *Conn) LinkClosed(now time.Time, link LinkID, acked uint64) {
	for k, h := range c.held {
		if h.link == link {
			c.held = append(c.held[:k], c.held[k+1:]...)
			return
		}
	}
	for i := range c.paths {
		p := &c.paths[i]
		if p.link != link {
			continue
		}
		defer c.forgetMap()
		if p.proved {
			c.Acked(i, acked)
		}
		p.link, p.proveBy, p.paused = 0, time.Time{}, false
		p.resets++
		c.stats.ConnReset++
		p.must(Down)
		c.resetPath(p)
		if c.closed {
			c.discard(p)
			return
		}
		if c.barred {
			c.endBarred(p)
			return
		}
		c.afterLoss(now, p)
		c.grantClaims(now)
		return
	}
}

// forgetMap forgets the peer's congestion map, and how long messages it takes, when the last
// link is gone: the next one begins with a new map, and whoever waits for a port to be free would
// not ask for that link. What the map held back is queued again.
func (c *Conn) forgetMap() {
	for i := range c.paths {
		if c.paths[i].state == Up {
			return
		}
	}
	c.longest, c.longestBorn = 0, 0
	if c.mapped && !c.closed {
		c.mapped = false
		c.maps++
		c.remote = nil
		c.divert(false, true)
		c.act(Action{Kind: WakeAll})
	}
}

// afterLoss finds the path its next link.
func (c *Conn) afterLoss(now time.Time, p *path) {
	for k, h := range c.held {
		if h.path == p.index || h.path < 0 && p.index < c.used() && (p.index == 0 || !c.perhapsFirst(h)) {
			c.held = append(c.held[:k], c.held[k+1:]...)
			c.install(now, p, h, false)
			c.follow(now, p)
			return
		}
	}
	if p.index >= c.used() {
		c.migrate(p)
		return
	}
	switch {
	case c.connector():
		c.schedule(now, p)
		if p.index > 0 {
			c.verifyPeer(now)
		} else {
			c.closeSurplus()
		}
	case p.index == 0:
		c.closeSurplus()
		fallthrough
	default:
		c.scheduleKnock(now)
	}
	c.dialNext(now)
}

// closeSurplus closes the links of paths that are not in use: one of them may
// be what the peer has for path 0, which then connects again.
func (c *Conn) closeSurplus() {
	for i := c.used(); i < MaxPaths; i++ {
		if p := &c.paths[i]; p.state == Up {
			p.must(Disconnecting)
			c.act(Action{Kind: CloseLink, Link: p.link})
		}
	}
}

// resetPath prepares what the lost link left for the next one.
func (c *Conn) resetPath(p *path) {
	q := &p.q
	p.control, p.controlOff, p.nextOff, p.bound, p.hold, p.mapPending, p.probe = nil, 0, 0, false, false, false, false
	p.leaving = false
	c.closeRanks(p)
	for pos := q.first; pos < q.next; pos++ {
		q.unsent += q.at(pos).size()
	}
	q.next = q.first
	c.settle(p, q.first, q.fresh, func(e *entry) (Status, bool) {
		switch {
		case e.flags&entryCanceled != 0:
			return Canceled, true
		case e.flags&entryOp != 0 && c.ops[e.token].begun && !(c.ops[e.token].done && e.flags&(entryRefused|entryLong) != 0):
			return Dropped, true
		case e.fate() != Success:
			return e.fate(), true // the peer has told the fate and not acknowledged the message
		case e.flags&(entryFlush|entryWritten) == entryFlush|entryWritten:
			c.stats.DroppedFlush++
			return Dropped, true
		case e.flags&entryWritten != 0:
			if e.flags&entryRetrans == 0 {
				e.flags |= entryRetrans
				markRetransmitted(e)
			}
			c.stats.Retransmitted++
		}
		e.flags &^= entryRefused | entryUnknown | entryLong // the flags of a silent operation start again
		return 0, false
	})
	c.dropCanceled(p)
	for pos := q.first; pos < q.tail; pos++ {
		if e := q.at(pos); e.flags&entryPong != 0 {
			markRetransmitted(e) // so that the peer does not take this pong for the answer to the next link's probe
		}
	}
}

// waiting tells whether any path has something to send, or should have a link
// nevertheless.
func (c *Conn) waiting() bool {
	if c.asked {
		return true
	}
	for i := range c.paths {
		p := &c.paths[i]
		if n := p.q.len() + len(p.shelf.list); n > 0 && !(c.unneeded && n <= p.pongs) {
			return true
		}
	}
	return false
}

// Deadline is when Tick wants to be called next; zero means never.
func (c *Conn) Deadline() time.Time {
	var d time.Time
	soonest := func(t time.Time) {
		if !t.IsZero() && (d.IsZero() || t.Before(d)) {
			d = t
		}
	}
	if c.closed {
		return d
	}
	for i := range c.paths {
		p := &c.paths[i]
		if p.state == Up {
			soonest(p.proveBy)
			soonest(p.probeAt)
			soonest(p.askedBy)
			if p.mute {
				soonest(p.muteBy)
			}
		}
	}
	if p, at := c.candidate(); p != nil {
		soonest(at)
	}
	if p := &c.paths[0]; !c.connector() && p.state == Down && !p.dialing {
		soonest(p.redialAt) // when to knock again
	}
	for _, h := range c.held {
		soonest(h.until)
	}
	if c.barrier > 0 {
		soonest(c.fenceBy)
	}
	soonest(c.limits.next)
	return d
}

// Tick does what has become due.
func (c *Conn) Tick(now time.Time) {
	if c.closed {
		return
	}
	for i := range c.paths {
		if p := &c.paths[i]; p.state == Up && !p.proveBy.IsZero() && !p.proveBy.After(now) {
			c.Proved(now, i)
		}
		if p := &c.paths[i]; p.state == Up && p.mute && !p.muteBy.After(now) {
			if p.paused { // nothing can be heard of it
				p.muteBy = now.Add(c.cfg.ProofTimeout)
			} else {
				c.unmute(p)
			}
		}
	}
	c.probeAgain(now)
	c.judge(now)
	for k := 0; k < len(c.held); {
		if h := c.held[k]; !h.until.After(now) {
			c.held = append(c.held[:k], c.held[k+1:]...)
			c.expire(now, h)
		} else {
			k++
		}
	}
	if p := &c.paths[0]; !c.connector() && p.state == Down && !p.dialing && !p.redialAt.IsZero() && !p.redialAt.After(now) {
		p.redialAt = time.Time{}
		if c.waiting() {
			c.dial(p)
		}
	}
	c.fenceTimeout(now)
	c.expireMessages(now)
	c.dialNext(now)
}
