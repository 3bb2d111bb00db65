package conn

// settle ends the messages in [from,to) for which end says so: their memory is
// freed, their accounts credited, their fates reported. The rest closes ranks,
// order kept. There are no holes among them.
func (c *Conn) settle(p *path, from, to uint64, end func(*entry) (Status, bool)) {
	c.settleIn(p, from, to, false, end)
}

// settleIn is settle, or with leave set something that moves nothing: what ends
// leaves a hole. Then [from,to) is within [first,next), holes may be in it, and
// end does not have them gone.
func (c *Conn) settleIn(p *path, from, to uint64, leave bool, end func(*entry) (Status, bool)) {
	q := &p.q
	var (
		acct  *Account
		bytes int
		n     int
		keep  = from
		next  = q.next
		fresh = q.fresh
		early = uint64(0) // how many of the settled entries are in front of the barrier
	)
	for pos := from; pos < to; pos++ {
		e := q.at(pos)
		status, gone := end(e)
		if !gone {
			if keep != pos && !leave {
				*q.at(keep) = *e
			}
			keep++
			continue
		}
		if pos < next {
			q.next--
		} else {
			q.unsent -= e.size()
		}
		if pos < fresh {
			q.fresh--
		}
		if pos < c.barrier {
			early++
		}
		token, op := e.token, (*Operation)(nil)
		if e.flags&entryOp != 0 {
			op = c.ops[e.token]
			token, status = op.token, op.fate(status)
			c.forgetOp(p, e)
		}
		if e.flags&entryCanceled == 0 {
			if e.acct != acct {
				c.credit(acct, bytes, n)
				acct, bytes, n = e.acct, 0, 0
			}
			bytes += int(e.length)
			n++
			if status != Success {
				c.countEnd(status)
			}
			if e.flags&entryNotify != 0 || e.flags&entryFailure != 0 && status != Success {
				c.fates = append(c.fates, Fate{e.acct, token, status, op})
			}
		}
		if e.flags&entryPong != 0 {
			p.pongs--
		}
		c.queued -= e.memory()
		p.log.drop(e.chunk)
		if e.body != nil {
			e.body.Release()
		}
		e.chunk, e.body, e.acct = nil, nil, nil
		if leave {
			e.flags = entryHole
		}
	}
	c.credit(acct, bytes, n)
	gone := to - keep
	switch {
	case gone == 0:
	case leave:
		q.next, q.fresh = next, fresh
		p.holes += int(gone)
	case keep == from && from == q.first: // the usual case: the oldest entries are settled
		q.first += gone
		q.next += gone
		q.fresh += gone
	default:
		for pos := to; pos < q.tail; pos++ {
			*q.at(pos - gone) = *q.at(pos)
		}
		for pos := q.tail - gone; pos < q.tail; pos++ {
			*q.at(pos) = entry{}
		}
		q.tail -= gone
		c.moved(p, from, q.tail)
		if p.index == 0 && c.barrier > 0 {
			c.barrier = max(1, c.barrier-early)
		}
	}
	q.verify()
	c.roomy()
}

// End is the end of a message that waited outside of the connection, behind those that it has
// taken: its room is given back, its body released, and its fate comes after theirs.
func (c *Conn) End(m *Message, status Status) {
	c.credit(m.Account, m.Size(), 1)
	if m.Notify || m.Failure {
		c.fates = append(c.fates, Fate{m.Account, m.Token, status, m.Op})
	}
	if m.Body != nil {
		m.Body.Release()
	}
}

// countEnd counts a message that did not succeed.
func (c *Conn) countEnd(status Status) {
	switch status {
	case Refused:
		c.stats.SendRefused++
	case Expired:
		c.stats.SendExpired++
	case TooLong:
		c.stats.SendTooLong++
	}
}

// moved tells the operations of the messages in [from,to) where these are now.
func (c *Conn) moved(p *path, from, to uint64) {
	if len(c.ops) == 0 {
		return
	}
	for pos := from; pos < to; pos++ {
		if e := p.q.at(pos); e.flags&entryOp != 0 {
			c.ops[e.token].pos = pos
		}
	}
}

// credit returns room to an account and notes it if somebody waits for that.
func (c *Conn) credit(a *Account, bytes, n int) {
	if a == nil || n == 0 {
		return
	}
	a.Release(bytes, n)
	roomy := false
	if a.Whole != nil {
		// Senders wait for the whole. Most of it may be for destinations that are down, or
		// that hold it back.
		roomy = int64(a.Bytes())-a.shelved.Load() <= a.Whole.limit.Load()/8
		a = a.Whole
	}
	if (a.Every || a.watchers.Load() != 0 && (roomy || a.roomy())) && (len(c.freed) == 0 || c.freed[len(c.freed)-1] != a) {
		c.freed = append(c.freed, a)
	}
}
