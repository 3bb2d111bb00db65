package conn

import "time"

// Legacy is what a connection leaves to the one that continues it in another process, so
// that the peer sees a new link and no new generation. The receive sequences are not in
// it, see Inbound.
type Legacy struct {
	Next        [MaxPaths]uint64 // sequence number of the next message of each path
	Generation  uint32           // the peer's, 0: not stated
	Paths       int              // number of paths in use, 0: no handshake yet
	Multipath   bool             // the peer states more than one path
	SourceIndex bool             // the peer's source ports tell its path indexes
	IndexedBy   time.Time        // until when they may tell though SourceIndex, or Paths, does not say so any more
	Linked      bool             // there was a link
}

// Legacy returns what the connection leaves. It is final when no path has a link.
func (c *Conn) Legacy() Legacy {
	l := Legacy{Generation: c.theirGen, Paths: c.npaths, Multipath: c.multipath, SourceIndex: c.sourceIndex, IndexedBy: c.indexedBy}
	for i := range c.paths {
		l.Next[i] = c.paths[i].sequence
		l.Linked = l.Linked || c.paths[i].resets > 0
	}
	return l
}

// Inherit continues a connection, as the first call on a new Conn. What the Conn may
// have of paths itself (Config.Paths) bounds what was in use.
func (c *Conn) Inherit(l Legacy) {
	c.theirGen = l.Generation
	c.npaths = min(l.Paths, c.cfg.Paths)
	c.multipath, c.sourceIndex, c.indexedBy = l.Multipath, l.SourceIndex, l.IndexedBy
	for i := range c.paths {
		if p := &c.paths[i]; l.Next[i] != 0 {
			p.sequence = l.Next[i]
		}
	}
}

// Reconnect asks for links like those that the predecessor had: a connector dials.
func (c *Conn) Reconnect(now time.Time) {
	if c.connector() {
		c.Connect(now)
	}
}

// Return undoes Retire and Depart: links are dialed and taken again.
func (c *Conn) Return(now time.Time) {
	if c.closed || !c.retired {
		return
	}
	c.retired, c.departed = false, false
	for i := range c.paths {
		if p := &c.paths[i]; p.state == Up && p.ready(c) { // operations have waited
			c.act(Action{Kind: Transmit, Path: i})
		}
	}
	c.MapChanged()
	c.scheduleKnock(now)
	c.dialNext(now)
}
