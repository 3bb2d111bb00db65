package conn

import (
	"time"

	"github.com/rds-go/rds/internal/wire"
)

// Meets says which generation of the peer is at the other end of path i's new link, 0
// if the link does not know. It comes before the first Fill for the link. What was sent
// to an earlier one and not acknowledged is dropped here and now: other transports tell
// it only behind what is resent, which the new one has by then received again.
func (c *Conn) Meets(now time.Time, i int, generation uint32) {
	p := &c.paths[i]
	if generation != 0 {
		p.tell(generation)
	}
	switch {
	case c.closed:
	case generation != 0 && generation != c.theirGen && !c.connector() && c.rivaled(p):
		p.met, p.claim = true, wire.Handshake{Generation: generation}
		c.ask(now, p)
	default:
		c.meet(p)
	}
}

func (c *Conn) meet(p *path) {
	p.met = false // later the link has carried something
	if !c.generation(p, p.toldGen) {
		return
	}
	c.settle(p, p.q.first, p.q.fresh, func(e *entry) (Status, bool) {
		if e.flags&(entryFlush|entryWritten) != entryFlush|entryWritten {
			return 0, false
		}
		c.stats.DroppedFlush++
		return Dropped, true
	})
}
