package conn

import (
	"errors"
	"time"
)

// ErrBarred: Bar has said that there may be no link with the peer.
var ErrBarred = errors.New("conn: the peer is not allowed")

// Bar says that there may be no link with the peer, until Unbar. Enqueue fails with
// ErrBarred, no link is dialed or taken, and those that there are end (CloseLink; the
// owner may abort them). Messages that wait end: with Dropped where some of their bytes
// were written or their operation has begun, else with OtherError. Those of a path with
// a link end when the link has, and what the peer has acknowledged by then is Success.
// Sequence numbers go on after Unbar.
func (c *Conn) Bar() {
	if c.closed || c.barred {
		return
	}
	c.barred, c.asked, c.invited = true, false, false
	for i := range c.paths {
		p := &c.paths[i]
		p.redialAt = time.Time{}
		if p.dialing {
			c.act(Action{Kind: CancelDial, Path: i})
		}
		switch {
		case p.link == 0:
			c.endBarred(p)
		case p.state == Up:
			p.must(Disconnecting)
			c.act(Action{Kind: CloseLink, Link: p.link})
		}
	}
	held := c.held
	c.held = nil
	for _, h := range held {
		c.refuse(h.link)
	}
	c.act(Action{Kind: WakeAll})
}

// Unbar ends what Bar has begun. A connector that had links dials.
func (c *Conn) Unbar(now time.Time) {
	if c.barred {
		c.barred = false
		c.dialNext(now)
	}
}

// Barred tells whether there may be no link with the peer.
func (c *Conn) Barred() bool { return c.barred }

// endBarred ends all messages of a path that has no link.
func (c *Conn) endBarred(p *path) {
	c.unshelveAll(p)
	c.settle(p, p.q.first, p.q.tail, func(e *entry) (Status, bool) {
		if e.flags&entryCanceled != 0 {
			return Canceled, true
		}
		c.stats.SendBarred++
		if e.flags&entryWritten != 0 {
			return Dropped, true
		}
		return OtherError, true
	})
	p.log.shrink()
}
