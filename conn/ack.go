package conn

import "sort"

// Acked says that the peer has acknowledged total bytes of what path i's
// present link has taken. It settles the messages they cover, once that counts, see proof.go
// and longest.go.
func (c *Conn) Acked(i int, total uint64) {
	p := &c.paths[i]
	if total <= p.acked || total > p.written {
		return
	}
	p.acked = total
	if p.unread && p.proved && total > p.unreadTo {
		p.unread = false
	}
	c.settleAcked(p)
}

// settleAcked does so if what is acknowledged counts.
func (c *Conn) settleAcked(p *path) {
	if p.proved && !p.unread {
		c.applyAcked(p)
	}
}

// Unacked is the number of bytes path i's link has taken and the peer has not
// been seen to acknowledge, counting only as long as messages wait for it.
func (c *Conn) Unacked(i int) uint64 {
	p := &c.paths[i]
	if int(p.q.next-p.q.first) == p.holes+p.quiet {
		return 0
	}
	return p.written - p.acked
}

// applyAcked ends the messages up to p.acked, those that have ended and those
// that wait for their operation left where they are.
func (c *Conn) applyAcked(p *path) {
	settled, acked := p.settled, p.acked
	if p.mute {
		acked = max(settled, p.unspoken(acked))
	}
	p.settled = acked
	if p.holes > 0 || p.pending > 0 {
		c.retire(p, p.endsAfter(settled), p.endsAfter(acked))
		return
	}
	q := &p.q
	end := q.first
	for end < q.next && q.at(end).end <= acked {
		end++
	}
	if end > q.first {
		c.settle(p, q.first, end, func(e *entry) (Status, bool) { return e.fate(), true })
	}
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
			return e.fate(), true
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
		return e.fate(), true
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
