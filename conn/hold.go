package conn

import (
	"encoding/binary"

	"github.com/rds-go/rds/internal/wire"
)

// A port of the peer is stopped while the peer's congestion map marks it, or
// while it is held: an application of the peer has no room for messages, while
// others of its host have. What is queued for a stopped port and was never
// picked for transmission leaves the queues for the paths' shelves, where it
// has no sequence number and delays no other message, and comes back to the
// tail of the queue when the port is free. So numbers still ascend on each
// link, and order is kept wherever it is promised: the messages of a pair of
// sockets are on one path, in its queue first, on its shelf second. Only what
// was picked before the peer's map arrived still reaches a congested socket.

// shelf is what a path holds back, the oldest first.
type shelf struct {
	list  []entry // nil when there is nothing
	bytes int     // bytes of the entries in list on the wire
}

// shelved is the position of an operation whose message is held back.
const shelved = ^uint64(0)

// Hold says that ports of the peer take no messages for now or, with on unset,
// that they do again. What was picked for transmission before is still written,
// and so is what other paths wait for on path 0; the rest waits, without delay
// for messages to other ports. Enqueue and Admits treat a held port as congested;
// what Enqueue takes all the same (Message.Admitted) is held back too. Messages held
// back are in Queued, Unsent and reports as messages in a queue are, but do not count
// against the budget: one stopped port must not block the others. The send buffers
// of their sockets bound them. All of this holds for congested ports as well.
//
// Holding is O(what is queued) once for all ports of a call, letting go O(what
// is held back). The loss of a link changes nothing by itself: who hears of held
// ports on a link lets them go when it ends. Ports of the peer's host itself,
// which belong to no application, are ignored.
func (c *Conn) Hold(ports []uint16, on bool) {
	if c.closed || !c.note(ports, on) {
		return
	}
	c.divert(on, !on)
	c.maps++
	if !on {
		c.act(Action{Kind: WakeAll})
	}
	c.roomy()
}

// hearMap takes the congestion map m of the peer. m is read only before
// hearMap returns.
func (c *Conn) hearMap(m *wire.CongestionMap) {
	switch {
	case c.remote != nil:
	case *m == (wire.CongestionMap{}):
		return
	default:
		c.remote = new(wire.CongestionMap)
	}
	const host = 1<<wire.PortHost | 1<<wire.PortProbe // ports of no application: probes must be answered
	more, fewer, marked := false, false, uint64(0)
	for i := 0; i < len(m); i += 8 {
		was, is := binary.LittleEndian.Uint64(c.remote[i:]), binary.LittleEndian.Uint64(m[i:])
		if i == 0 {
			is &^= host
		}
		if is != was {
			more = more || is&^was != 0
			fewer = fewer || was&^is != 0
			binary.LittleEndian.PutUint64(c.remote[i:], is)
		}
		marked |= is
	}
	if marked == 0 {
		c.remote = nil
	}
	c.divert(more, fewer)
	c.roomy()
}

// divert follows a change of the stopped ports: there are new ones if more is
// set, and some are free again if fewer is. It costs one look at each message
// that was never picked, or at each one on a shelf.
func (c *Conn) divert(more, fewer bool) {
	for i := range c.paths {
		p := &c.paths[i]
		if more {
			c.shelve(p)
		}
		if !fewer || len(p.shelf.list) == 0 {
			continue
		}
		was := p.ready(c)
		c.unshelve(p, func(e *entry) bool { return !c.stopped(e.dport) })
		if p.state == Up && !was && p.ready(c) {
			c.act(Action{Kind: Transmit, Path: i})
		}
	}
}

// stopped tells whether port takes no messages for now.
func (c *Conn) stopped(port uint16) bool { return c.Congested(port) || c.Held(port) }

// Held tells whether Hold has said that port takes no messages.
func (c *Conn) Held(port uint16) bool { return c.holds != nil && c.holds.Congested(port) }

// RefusedPorts are those that Enqueue refuses: of the peer's congestion map, and held.
// The map is the core's, or a copy; nil means that there are none.
func (c *Conn) RefusedPorts() *wire.CongestionMap {
	switch {
	case c.holds == nil:
		return c.remote
	case c.remote == nil:
		return c.holds
	}
	m := *c.holds
	for i, b := range c.remote {
		m[i] |= b
	}
	return &m
}

// HeldBytes is what of Unsent is held back on path i. No link waits for it to be
// written.
func (c *Conn) HeldBytes(i int) int { return c.paths[i].shelf.bytes }

// note notes which ports are held and tells whether that has changed.
func (c *Conn) note(ports []uint16, on bool) (changed bool) {
	if c.holds == nil {
		if !on {
			return false
		}
		c.holds = new(wire.CongestionMap)
	}
	for _, port := range ports {
		switch {
		case port == wire.PortHost || port == wire.PortProbe:
		case on && c.holds.Set(port):
			c.holding++
			changed = true
		case !on && c.holds.Clear(port):
			c.holding--
			changed = true
		}
	}
	if c.holding == 0 {
		c.holds = nil
	}
	return changed
}

// shelve takes what is to be held back out of p's queue.
func (c *Conn) shelve(p *path) {
	q := &p.q
	from := q.fresh
	if p.index == 0 {
		from = max(from, c.barrier) // other paths wait for path 0's messages in front of the barrier
	}
	keep := from
	for pos := from; pos < q.tail; pos++ {
		e := q.at(pos)
		if c.stopped(e.dport) && e.flags&entryCanceled == 0 {
			q.unsent -= e.size()
			c.aside(p, e)
			continue
		}
		if keep != pos {
			*q.at(keep) = *e
		}
		keep++
	}
	if keep >= q.tail {
		return
	}
	for pos := keep; pos < q.tail; pos++ {
		*q.at(pos) = entry{}
	}
	q.tail = keep
	c.moved(p, from, q.tail)
	q.verify()
}

// shelveLast is shelve for the message that was queued last.
func (c *Conn) shelveLast(p *path) {
	q := &p.q
	q.tail--
	e := q.at(q.tail)
	q.unsent -= e.size()
	c.aside(p, e)
	*e = entry{}
}

// aside puts a copy of e on p's shelf.
func (c *Conn) aside(p *path, e *entry) {
	if e.flags&entryHeld == 0 {
		e.flags |= entryHeld
		c.stats.Held++
	}
	if e.flags&entryOp != 0 {
		op := c.ops[e.token]
		op.path, op.pos = p.index, shelved
	}
	p.shelf.list = append(p.shelf.list, *e)
	p.shelf.bytes += e.size()
	e.acct.shelve(int(e.length))
	c.shelved += e.memory()
}

// unshelve moves those of the messages held back on p for which back says so to
// the tail of its queue, order kept. It is also how they end: in the queue, as
// others do.
func (c *Conn) unshelve(p *path, back func(*entry) bool) {
	list, q := p.shelf.list, &p.q
	keep := list[:0]
	for i := range list {
		e := &list[i]
		if !back(e) {
			keep = append(keep, *e)
			continue
		}
		if e.flags&entryOp != 0 {
			c.ops[e.token].pos = q.tail
		}
		p.shelf.bytes -= e.size()
		e.acct.shelve(-int(e.length))
		c.shelved -= e.memory()
		q.unsent += e.size()
		*q.push() = *e
	}
	clear(list[len(keep):])
	if p.shelf.list = keep; len(keep) == 0 {
		p.shelf.list = nil
	}
	q.verify()
}

// unshelveAll leaves nothing on p's shelf.
func (c *Conn) unshelveAll(p *path) {
	if len(p.shelf.list) > 0 {
		c.unshelve(p, func(*entry) bool { return true })
	}
}

// reshelve holds back what had to stay in path 0's queue while other paths
// waited for it, in front of what came later.
func (c *Conn) reshelve() {
	if c.holds != nil || c.remote != nil {
		p := &c.paths[0]
		c.unshelveAll(p)
		c.shelve(p)
	}
}

// spread gives what path 0 holds back from before the handshake to the paths
// that the messages after it take. What is in path 0's queue for the same
// sockets those paths wait for; see barrier.go.
func (c *Conn) spread() {
	p := &c.paths[0]
	list := p.shelf.list
	if len(list) == 0 {
		return
	}
	p.shelf = shelf{}
	p.log.part()
	for i := range list { // pongs come from port 0 and stay on path 0
		c.shelved -= list[i].memory()
		list[i].acct.shelve(-int(list[i].length))
		c.aside(&c.paths[c.PathFor(list[i].sport)], &list[i])
	}
}
