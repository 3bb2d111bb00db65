package conn

import "sort"

// Acked says that the peer has acknowledged total bytes of what path i's
// present link has taken. It settles the messages they cover, once the peer's
// RDS has shown that it took the link: what a peer's TCP acknowledged on a
// link its RDS then refuses never reached it.
func (c *Conn) Acked(i int, total uint64) {
	p := &c.paths[i]
	if total <= p.acked && p.q.first == p.q.next || total > p.written {
		return
	}
	p.acked = max(p.acked, total)
	if len(p.ahead.heap) > 0 {
		p.acked = p.ahead.absorb(p.acked)
	}
	if !p.proved {
		return
	}
	if p.holes > 0 || p.pending > 0 {
		c.applyAcked(p)
		return
	}
	q := &p.q
	end := q.first
	for end < q.next && q.at(end).end <= p.acked {
		end++
	}
	if end == q.first {
		return
	}
	c.settle(p, q.first, end, func(*entry) (Status, bool) { return Success, true })
}

// AckedRange says that the peer has acknowledged the bytes (from,to] of what
// path i's present link has taken, out of order: its messages went to several
// queues of the peer. Ranges do not overlap each other; what Acked has covered
// may be in them. A message that lies wholly inside ends at once; one of which a
// part does, when Acked or other ranges leave no gap before its end.
func (c *Conn) AckedRange(i int, from, to uint64) {
	p := &c.paths[i]
	from = max(from, p.acked)
	if from >= to || to > p.written {
		return
	}
	p.ahead.add(span{from, to})
	acked := p.acked
	p.acked = p.ahead.absorb(p.acked)
	if !p.proved {
		return
	}
	if p.acked > acked {
		c.applyAcked(p)
	} else {
		c.applySpan(p, span{from, to})
	}
}

// Unacked is the number of bytes path i's link has taken and the peer has not
// been seen to acknowledge, counting only as long as messages wait for it.
func (c *Conn) Unacked(i int) uint64 {
	p := &c.paths[i]
	if int(p.q.next-p.q.first) == p.holes+p.quiet {
		return 0
	}
	return p.written - min(p.acked+p.ahead.bytes, p.written-1)
}

// applyAhead ends the messages that were acknowledged out of order before the
// link was proved.
func (c *Conn) applyAhead(p *path) {
	if p.ahead.used {
		c.applyAcked(p)
	}
	for _, s := range p.ahead.heap {
		c.applySpan(p, s)
	}
}

// applyAcked ends the messages up to p.acked, those that have ended and those
// that wait for their operation left where they are.
func (c *Conn) applyAcked(p *path) {
	from, to := p.endsAfter(p.settled), p.endsAfter(p.acked)
	p.settled = p.acked
	c.retire(p, from, to)
}

// applySpan ends the messages that lie wholly in s.
func (c *Conn) applySpan(p *path, s span) {
	from, to := p.endsAfter(s.from), p.endsAfter(s.to)
	if from < to {
		if e := p.q.at(from); e.end < s.from+uint64(e.size()) {
			from++ // it begins before
		}
	}
	c.retire(p, from, to)
}

// endsAfter is the position of the first message in [first,next) that ends
// behind off; next if there is none.
func (p *path) endsAfter(off uint64) uint64 {
	q := &p.q
	return q.first + uint64(sort.Search(int(q.next-q.first), func(k int) bool { return q.at(q.first+uint64(k)).end > off }))
}

// retire ends the messages in [from,to), whose bytes are acknowledged, except
// for those that wait for their operation. What ends leaves a hole, so that
// nothing has to move; holes go when they are in front, or more than the rest.
func (c *Conn) retire(p *path, from, to uint64) {
	c.settleIn(p, from, to, true, func(e *entry) (Status, bool) {
		if e.flags&(entryHole|entryOp) == 0 {
			return Success, true
		}
		if e.flags&entryHole != 0 {
			return 0, false
		}
		if e.flags&entryCanceled == 0 && !c.ops[e.token].done {
			if e.flags&entryQuiet == 0 {
				e.flags |= entryQuiet
				p.quiet++
			}
			return 0, false
		}
		return Success, true
	})
	q := &p.q
	for q.first < q.next && q.at(q.first).flags&entryHole != 0 {
		q.first++
		p.holes--
	}
	if p.holes > int(q.next-q.first)/2 {
		c.closeRanks(p)
	}
}

// closeRanks moves the messages in [first,next) together, to the end, so that
// no hole is left.
func (c *Conn) closeRanks(p *path) {
	q := &p.q
	if p.holes == 0 {
		return
	}
	to, barrier := q.next, q.next
	for pos := q.next; pos > q.first; {
		pos--
		if q.at(pos).flags&entryHole != 0 {
			continue
		}
		to--
		if pos >= c.barrier {
			barrier = to
		}
		if to != pos {
			*q.at(to), *q.at(pos) = *q.at(pos), entry{flags: entryHole}
		}
	}
	if p.index == 0 && c.barrier > q.first && c.barrier < q.next {
		c.barrier = barrier
	}
	q.first, p.holes = to, 0
	c.moved(p, to, q.next)
}
