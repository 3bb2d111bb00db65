package conn

// Cancel settles the messages of account a that the peer has not acknowledged,
// those to port only unless all is set (net/rds/send.c, rds_send_drop_to). A
// message that is partly written, or whose operation was begun, is finished on
// the wire; one that was written may have been delivered. It returns how many
// messages and payload bytes it settled.
func (c *Conn) Cancel(a *Account, port uint16, all bool) (messages, bytes int) {
	return c.cancel(a, port, all, Canceled)
}

// cancel is Cancel whose fates say what status says.
func (c *Conn) cancel(a *Account, port uint16, all bool, status Status) (messages, bytes int) {
	for i := range c.paths {
		p := &c.paths[i]
		var m, b int
		if len(p.shelf.list) > 0 {
			c.unshelve(p, func(e *entry) bool { return e.acct == a && (all || e.dport == port) })
		}
		for pos := p.q.first; pos < p.q.tail; pos++ {
			e := p.q.at(pos)
			if e.acct != a || e.flags&entryCanceled != 0 || !all && e.dport != port {
				continue
			}
			e.flags |= entryCanceled
			m++
			b += int(e.length)
			if e.flags&(entryNotify|entryFailure) != 0 {
				f := c.canceled(e)
				if f.Status == Canceled {
					f.Status = status
				}
				c.fates = append(c.fates, f)
			}
		}
		if m == 0 {
			continue
		}
		c.credit(a, b, m)
		messages, bytes = messages+m, bytes+b
		if p.filling {
			p.compact = true
		} else {
			c.dropCanceled(p)
		}
	}
	return messages, bytes
}

// dropCanceled frees the canceled messages of which the present link has begun
// neither the bytes nor the operation; the others go when they are acknowledged
// or the link is lost.
func (c *Conn) dropCanceled(p *path) {
	from := p.q.next
	if p.nextOff > 0 || p.bound {
		from++
	}
	if p.state == Down || p.state == Connecting {
		from = p.q.first
	}
	c.settle(p, from, p.q.tail, func(e *entry) (Status, bool) { return Canceled, e.flags&entryCanceled != 0 })
}
