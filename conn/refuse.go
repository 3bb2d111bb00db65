package conn

import "sort"

// RefusedBy says that the peer has answered count messages of path i, numbered from first
// on, on the path's present link: it did not deliver them. With status Refused nobody is
// bound to their ports; with TooLong it does not take messages of their length; with Dropped it
// does not know any more whether it had delivered one of them earlier. It comes before Acked counts them, and is their fate from then on:
// they end with it when they are acknowledged or when the link is lost, unless their
// operation has failed.
//
// A peer may say it of what it has: numbers that were never picked, that are canceled or
// acknowledged, are ignored. So is the rest of a call behind a message of which it was
// said before, which bounds what a peer can make us do.
func (c *Conn) RefusedBy(i int, first uint64, count uint32, status Status) {
	p := &c.paths[i]
	q := &p.q
	flag := map[Status]uint32{Refused: entryRefused, Dropped: entryUnknown, TooLong: entryLong}[status]
	if c.closed || p.link == 0 || flag == 0 {
		return
	}
	at := q.first + uint64(sort.Search(int(q.fresh-q.first), func(k int) bool { return q.at(q.first+uint64(k)).seq >= first }))
	for ; at < q.fresh; at++ {
		e := q.at(at)
		switch {
		case e.seq-first >= uint64(count), e.flags&(entryRefused|entryUnknown|entryLong) != 0:
			return
		}
		e.flags |= flag // set on holes and silent operations too, so that they are passed once
		if status == Refused && c.cfg.OnRefused != nil {
			c.cfg.OnRefused(e.sport, e.dport)
		}
	}
}

// fate is the end of an acknowledged message, but for its operation's.
func (e *entry) fate() Status {
	switch {
	case e.flags&entrySilent != 0:
	case e.flags&entryRefused != 0:
		return Refused
	case e.flags&entryUnknown != 0:
		return Dropped
	case e.flags&entryLong != 0:
		return TooLong
	}
	return Success
}
