package conn

import "time"

// heldLink is an inbound link that waits for its path's old link to end.
type heldLink struct {
	link  LinkID
	path  int // path that the link is for; -1: any
	sport uint16
	told  bool   // the link's set-up has said which path it is for: sport
	born  uint64 // birth of the link, see path.born
	ask   uint32 // not 0: the probe of path 0 whose answer says that this is another path's link
	until time.Time
}

// maxHeld bounds the inbound links that wait.
const maxHeld = 2 * MaxPaths

// Accepted offers an inbound link whose source port is sport. The core starts
// it, holds it until its path is free, or closes it.
func (c *Conn) Accepted(now time.Time, link LinkID, sport uint16) {
	c.accepted(now, heldLink{link: link, sport: sport})
}

// AcceptedFor is Accepted for a link whose set-up has said which path the peer has dialed
// it for. It is that path's whatever is known of the peer's path settings: what it brings
// is numbered as that path's.
func (c *Conn) AcceptedFor(now time.Time, link LinkID, path int) {
	c.accepted(now, heldLink{link: link, sport: uint16(path) % MaxPaths, told: true})
}

func (c *Conn) accepted(now time.Time, h heldLink) {
	switch {
	case c.closed || c.departed || c.barred:
		c.refuse(h.link)
		return
	case c.connector():
		c.knocked(now)
		c.refuse(h.link)
		return
	}
	c.births++
	h.born = c.births
	if s := c.paths[0].state; c.npaths == 0 && !h.told && s != Down && s != Connecting {
		// It is path 0 again, whose old link may still hold messages, or a
		// further path of a peer that outlived us: the handshake will tell.
		if s == Up {
			c.challenge(now, &c.paths[0])
		}
		c.hold(now, h, -1)
		return
	}
	c.place(now, h, c.used())
}

// place gives an inbound link to one of the first n paths, or to that which its set-up has
// told.
func (c *Conn) place(now time.Time, h heldLink, n int) {
	want := -1
	switch {
	case h.told:
		want = int(h.sport)
	case c.sourceIndex && n > 1:
		want = int(h.sport) % n
	case h.sport%MaxPaths != 0 && now.Before(c.indexedBy):
		c.refuse(h.link)
		return
	case c.perhapsFirst(h):
		want = 0
	default:
		for i := range n {
			if s := c.paths[i].state; s == Down || s == Connecting {
				want = i
				break
			}
		}
		if want < 0 && n == 1 {
			want = 0
		}
	}
	if want < 0 {
		c.hold(now, h, want)
		return
	}
	p := &c.paths[want]
	// After our own restart path 0 took the first link that came, which may be another path's.
	misplaced := want == 0 && c.sourceIndex && int(p.sport)%n != 0
	switch {
	case p.state == Down:
		c.install(now, p, h, false)
	case p.state == Connecting: // the link of our own knock is no longer needed
		c.act(Action{Kind: CancelDial, Path: want})
		c.install(now, p, h, false)
	case p.state == Up && !misplaced:
		c.challenge(now, p)
		c.hold(now, h, want)
	case p.state != Resetting:
		p.must(Resetting)
		c.act(Action{Kind: CloseLink, Link: p.link})
		c.hold(now, h, want)
	default:
		c.hold(now, h, want)
	}
}

// perhapsFirst tells whether an inbound link may be path 0's though the peer is said not to
// tell by source ports: what says so is disputed, or has not answered a probe yet.
func (c *Conn) perhapsFirst(h heldLink) bool {
	return !c.sourceIndex && h.sport%MaxPaths == 0 && (c.disputed || c.paths[0].answers == 0)
}

// placeHeld gives the links that waited for the handshake to their paths. They
// may be more than we use, when the peer knew us with more before. If it may
// have several paths and source ports do not tell them apart, it is asked on
// path 0: the answer says that path 0 is alive, and they are others.
func (c *Conn) placeHeld(now time.Time) {
	held := c.held
	c.held = nil
	for _, h := range held {
		switch {
		case h.path >= 0:
		case c.sourceIndex:
			c.place(now, h, MaxPaths)
			continue
		case c.npaths == 1 && !c.multipath:
			c.place(now, h, 1)
			continue
		default:
			p := &c.paths[0]
			p.probe = true
			h.ask, h.until = p.probes+1, now.Add(min(h.until.Sub(now), c.cfg.AskTimeout))
			if p.state == Up {
				c.act(Action{Kind: Transmit, Path: 0})
			}
		}
		c.held = append(c.held, h)
	}
}

// expire ends the wait of a held link.
func (c *Conn) expire(now time.Time, h heldLink) {
	if c.delayed(&h) {
		c.linger(now, h)
		return
	}
	if h.ask == 0 {
		c.refuse(h.link)
		return
	}
	if p := &c.paths[0]; p.state != Up || p.answers < h.ask {
		if p.state == Up && c.used() == 1 {
			h.path, h.ask = 0, 0
			c.held = append(c.held, h)
			c.supersede(now, p)
			return
		}
		c.place(now, h, c.used())
		return
	}
	for i := range c.paths {
		if p := &c.paths[i]; p.state == Down && !p.dialing {
			c.install(now, p, h, false)
			return
		}
	}
	c.refuse(h.link)
}

func (c *Conn) refuse(link LinkID) {
	c.stats.LinksRefused++
	c.act(Action{Kind: CloseLink, Link: link})
}

// hold keeps an inbound link until path want is free. A newer one for the same
// path replaces it, unless the path is paused.
func (c *Conn) hold(now time.Time, h heldLink, want int) {
	for k, old := range c.held {
		if want >= 0 && old.path == want && !c.paths[want].paused {
			c.refuse(old.link)
			c.held = append(c.held[:k], c.held[k+1:]...)
			break
		}
	}
	if len(c.held) >= maxHeld {
		c.refuse(h.link)
		return
	}
	h.path, h.ask, h.until = want, 0, now.Add(c.cfg.HoldTimeout)
	c.held = append(c.held, h)
}
