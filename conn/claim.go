package conn

import (
	"time"

	"github.com/rds-go/rds/internal/wire"
)

// A peer is one process at a time, which states the same on all its links: a generation and
// path settings. A link that states something else is of the peer's next process, or an
// impostor's. So the links that have stated what is known are asked whether they live, see
// challenge.go. If one does, the link that claims something else is ended; if none does,
// what it claims is what is known from then on. Until that is decided nothing is written on
// the link. Only the side that takes links asks: what a connector has dialed is the peer.

// claims tells whether what p's link states is not believed, or not yet.
func (c *Conn) claims(now time.Time, p *path, hs wire.Handshake) bool {
	if p.claiming {
		p.claim = hs
	}
	switch {
	case c.connector() || hs == c.stated:
		return false
	case p.state != Up: // the link is ending: the next one will tell
	case !c.rivaled(p):
		return false
	case !p.agrees:
		p.claim = hs
		c.ask(now, p)
	}
	return true
}

// ask asks the links whose statement p's link contradicts.
func (c *Conn) ask(now time.Time, p *path) {
	p.claiming = true
	for i := range c.paths {
		if q := &c.paths[i]; c.rivals(p, q) {
			c.challenge(now, q)
		}
	}
}

// rivals tells whether q has a link, other than p's, that has stated what is known.
func (c *Conn) rivals(p, q *path) bool { return q != p && q.agrees && q.state == Up }

// rivaled tells whether some path rivals p.
func (c *Conn) rivaled(p *path) bool {
	for i := range c.paths {
		if c.rivals(p, &c.paths[i]) {
			return true
		}
	}
	return false
}

// believe takes what p's link states for what the peer states.
func (c *Conn) believe(p *path, hs wire.Handshake) {
	if hs != c.stated {
		for i := range c.paths {
			c.paths[i].agrees = false
		}
		was, is := c.stated, hs
		was.Generation, is.Generation, was.Limit, is.Limit = 0, 0, 0, 0
		c.disputed = c.disputed || was != is && was != wire.Handshake{}
		c.stated = hs
	}
	p.agrees = true
}

// claimed tells whether some link claims something else than what is known.
func (c *Conn) claimed() bool {
	for i := range c.paths {
		if p := &c.paths[i]; p.claiming && p.state == Up {
			return true
		}
	}
	return false
}

// denyClaims ends the links that claim something else than what p's link, which lives, has
// stated.
func (c *Conn) denyClaims(p *path) {
	if !p.agrees {
		return
	}
	for i := range c.paths {
		if q := &c.paths[i]; q.claiming && q.state == Up {
			c.endLink(q)
		}
	}
}

// grantClaims believes the links that no other one contradicts any more.
func (c *Conn) grantClaims(now time.Time) {
	for i := 0; i < MaxPaths; i++ {
		p := &c.paths[i]
		switch {
		case !p.claiming || p.state != Up:
			continue
		case p.claim != c.stated && c.rivaled(p):
			c.ask(now, p) // another link may be believed now
			continue
		}
		p.claiming = false
		if !p.met || p.claim.HasPaths {
			c.handshake(now, p, p.claim)
		}
		if p.met {
			c.meet(p)
		}
		c.act(Action{Kind: Transmit, Path: i})
		i = -1
	}
}

// endLink ends the link of p, so that the peer makes another one.
func (c *Conn) endLink(p *path) {
	c.stats.LinksRefused++
	p.claiming = false
	p.must(Disconnecting)
	c.act(Action{Kind: CloseLink, Link: p.link})
}

// strays tells whether the link of p is another path's by what it states itself. Path 0's
// never is: what comes first is path 0's, and source ports may have changed on their way.
func (p *path) strays(hs wire.Handshake) bool {
	if p.index == 0 || p.outbound || p.state != Up || !hs.HasPaths {
		return false
	}
	n := min(int(hs.Paths), MaxPaths)
	return n <= 1 || hs.SourceIndex && int(p.sport)%n != p.index
}

// reindex follows what a link has stated, which may be that source ports tell nothing, or
// that there is only one path, where they told paths apart before. For a while a link from
// another source port than path 0's may nevertheless be the known process's: that has dialed
// it when it had path 0, and an impostor has taken its place since. Read as path 0's it would
// have its messages taken for old ones, and those that are repeated later for new ones. So it
// is refused, unread: that process dials path 0 then.
func (c *Conn) reindex(now time.Time, indexed bool) {
	if indexed && !c.indexed() {
		c.indexedBy = now.Add(c.cfg.HoldTimeout)
	}
}

// indexed tells whether source ports tell several paths of the peer apart.
func (c *Conn) indexed() bool { return c.sourceIndex && c.npaths > 1 }
