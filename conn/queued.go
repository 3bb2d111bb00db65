package conn

import (
	"time"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
)

// QueuedMessage is a message that a connection leaves to the one that continues it.
type QueuedMessage struct {
	Message         // without Body: Payload is all of it; Op is the predecessor's
	Path     int    // path that it is queued on
	Sequence uint64 // sequence number of the message; 0: it was never picked
	Written  bool   // some of it was written: the peer may have it
	Lent     *buf.Buf
}

// Settled tells whether nothing of the connection is under way that could still be
// acknowledged: there is no link, or all that waits is held back for ports that the peer
// has stopped.
func (c *Conn) Settled() bool {
	for i := range c.paths {
		p := &c.paths[i]
		if p.state != Down && p.state != Connecting && p.q.len() > p.pongs {
			return false
		}
	}
	return true
}

// Queue shows f what is queued when no path has a link, in an order in which Requeue can
// have it: those of a path that were picked come first. Payloads are valid during the call.
// Operations among it have not begun: what has begun ends with its link. It is false if
// there is one that has, and cannot be left.
func (c *Conn) Queue(f func(*QueuedMessage)) bool {
	for i := range c.paths {
		p := &c.paths[i]
		show := func(e *entry, picked bool) bool {
			if e.flags&(entryPong|entryCanceled|entryHole) != 0 {
				return true
			}
			m := QueuedMessage{Path: i, Written: e.flags&entryWritten != 0, Lent: e.body, Message: Message{
				Sport: e.sport, Dport: e.dport, Account: e.acct, Token: e.token,
				Notify: e.flags&entryNotify != 0, Failure: e.flags&entryFailure != 0, Admitted: true,
			}}
			if e.flags&entryOp != 0 {
				if m.Op = c.ops[e.token]; m.Op.begun {
					return false
				}
				m.Token = m.Op.token
				picked = picked && !m.Op.Silent // a silent operation takes no number
			}
			b := e.chunk.b.B[e.off:]
			if e.body != nil {
				m.Payload = e.body.B
			} else {
				m.Payload = b[wire.HeaderSize:e.head()]
			}
			if e.flags&entryExtended != 0 {
				copy(m.Extensions[:], b[wire.HeaderSize-wire.ExtensionSize:wire.HeaderSize])
			}
			switch {
			case picked:
				m.Sequence = e.seq
			case e.flags&entryLimited != 0:
				m.Deadline = c.limitBase.Add(time.Duration(e.seq))
			}
			f(&m)
			return true
		}
		for pos := p.q.first; pos < p.q.tail; pos++ {
			if !show(p.q.at(pos), pos < p.q.fresh) {
				return false
			}
		}
		for k := range p.shelf.list {
			if !show(&p.shelf.list[k], false) {
				return false
			}
		}
	}
	return true
}

// Requeue queues what Queue of the predecessor has shown, in its order, before anything
// else is queued. Payload is copied; where it is longer than InlineMax it is in Body.
func (c *Conn) Requeue(now time.Time, m *QueuedMessage) error {
	if m.Path < 0 || m.Path >= MaxPaths || m.Sequence == 0 {
		_, err := c.Enqueue(now, max(0, m.Path)%MaxPaths, &m.Message)
		return err
	}
	p := &c.paths[m.Path]
	c.stats.SendQueued++
	c.push(p, &m.Message, 0)
	e := p.q.at(p.q.tail - 1)
	next := p.sequence
	p.sequence = m.Sequence
	p.number(e)
	p.sequence = max(next, p.sequence)
	if m.Written {
		e.flags |= entryWritten | entryRetrans
		markRetransmitted(e)
		c.stats.Retransmitted++
	}
	return nil
}
