package conn

import (
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
)

// Operation is an access to the peer's memory that precedes a message, or comes
// alone: in Linux's words, RDMA arguments or an atomic (net/rds/rdma.c,
// rds_message.rdma and .atomic). It belongs to one Message, and to the core
// from Enqueue to the message's end.
//
// When the message's turn has come, and Config.Begins lets it begin, Fill shows the
// operation in the frame of its message, or in a frame of its own when the message must
// wait (Fence) or there is none (Silent). Wrote tells whether the link has begun it; if
// not, Fill shows it again. OpRefused follows if no link can do such a thing. OpDone tells
// its end, perhaps before Wrote. Fill ends the message of one whose Epoch is over.
//
//	       Fill, Wrote            bytes acknowledged and OpDone
//	queued ───────────▶ begun ───────────────────────────────────▶ settled
//	   ▲       │          │ link lost
//	   └───────┘          ▼
//	   not taken       Dropped: never begun again, message and all
type Operation struct {
	Work any // the owner's operation; the core passes it through
	// List is what the link does.
	List   []*transport.Operation
	Cost   int    // octets that the operation counts for in a batch besides its message's
	Fence  bool   // the message is not written before the operation is done
	Silent bool   // there is no message: the payload is empty, nothing is written
	Epoch  uint32 // the connection's epoch when the operation was asked for: the key is of that generation of the peer

	token  uint64 // token of the message
	id     uint32 // index in Conn.ops
	path   int    // path that the message is queued on
	pos    uint64 // position of the message in the queue of path
	begun  bool   // the present link has taken it
	done   bool
	status Status // result of the operation, once done
}

// fate is the end of a message that but for its operation ends with status.
func (op *Operation) fate(status Status) Status {
	if op.done && op.status != Success {
		return op.status
	}
	return status
}

// extend puts the extensions of a message about to be pushed into its header
// and notes its operation. It returns the token and flags of the entry.
func (c *Conn) extend(p *path, m *Message, header []byte) (token uint64, flags uint32) {
	if m.Extended() {
		copy(header[wire.HeaderSize-wire.ExtensionSize:], m.Extensions[:])
		flags = entryExtended
		c.extended = true
	}
	op := m.Op
	if op == nil {
		return m.Token, flags
	}
	c.noteOp(op)
	op.token, op.path, op.pos = m.Token, p.index, p.q.tail
	op.begun, op.done, op.status = false, false, Success
	if op.Silent {
		flags |= entrySilent
	}
	return uint64(op.id), flags | entryOp
}

// noteOp gives an operation its id, one that is free.
func (c *Conn) noteOp(op *Operation) {
	if n := len(c.freeOps); n > 0 {
		op.id = c.freeOps[n-1]
		c.freeOps = c.freeOps[:n-1]
		c.ops[op.id] = op
		return
	}
	op.id = uint32(len(c.ops))
	c.ops = append(c.ops, op)
}

// hasOp tells whether the message of an operation has not ended.
func (c *Conn) hasOp(op *Operation) bool { return int(op.id) < len(c.ops) && c.ops[op.id] == op }

// shrinkOps gives back the memory of ids when none is in use.
func (c *Conn) shrinkOps() {
	if len(c.freeOps) == len(c.ops) {
		c.ops, c.freeOps = nil, nil
	}
}

// canceled is what to report of a message that is canceled: with its own token,
// and the operation's status if that has failed.
func (c *Conn) canceled(e *entry) Fate {
	if e.flags&entryOp == 0 {
		return Fate{Account: e.acct, Token: e.token, Status: Canceled}
	}
	op := c.ops[e.token]
	return Fate{e.acct, op.token, op.fate(Canceled), op}
}

// forgetOp takes the operation of a message that ends out of the books.
func (c *Conn) forgetOp(p *path, e *entry) {
	op := c.ops[e.token]
	c.ops[op.id] = nil
	c.freeOps = append(c.freeOps, op.id)
	if op.begun && !op.done {
		p.pending--
	}
	if e.flags&entryQuiet != 0 {
		p.quiet--
	}
}

// opWaits tells whether the message at pos waits, since it has an operation and
// either the peer's RDS has not shown that it took the link, or the link is about to end
// (Retire) and the message was never picked. The peer takes a link when it has done
// with the one before: what that one still carried must not reach the peer's memory
// behind what follows a loss that was reported. An operation that has begun when its
// link ends is lost, so that none begins then.
func (c *Conn) opWaits(p *path, pos uint64) bool {
	q := &p.q
	return pos < q.tail && q.at(pos).flags&entryOp != 0 && (!p.proved || c.retired && pos == q.fresh)
}

// began follows an operation of the message that is next, which the link has begun.
func (c *Conn) began(p *path, op *Operation) {
	op.begun = true
	p.opsBegun++
	if !op.done {
		p.pending++
	}
	q := &p.q
	if e := q.at(q.next); op.Silent {
		e.end = p.written
		e.flags |= entryQuiet
		p.quiet++
		q.unsent -= e.size()
		q.next++
	} else {
		p.bound = true
		p.hold = op.Fence
	}
	if op.done {
		c.opEnded(p, op)
	}
}

// OpRefused says that no link can carry an operation that Fill has shown. It follows
// Wrote. The message ends with OtherError.
func (c *Conn) OpRefused(op *Operation) {
	if c.hasOp(op) && !op.begun {
		p := &c.paths[op.path]
		if op.pos == shelved { // Wrote has moved its message to path 0, where its port is stopped
			c.unshelve(p, func(e *entry) bool { return e.flags&entryOp != 0 && c.ops[e.token] == op })
		}
		c.remove(p, op.pos, OtherError)
	}
}

// OpDone says how an operation that path i's link has begun has ended: with
// Success, RemoteError if the peer refused it, Dropped if it was lost with the
// link, OtherError. An operation whose message has ended is ignored.
func (c *Conn) OpDone(i int, op *Operation, status Status) {
	p := &c.paths[i]
	if c.closed || !c.hasOp(op) || op.path != i || op.done || !op.begun && !(p.filling && op.pos >= p.q.next && op.pos < p.shown) {
		return
	}
	op.done, op.status = true, status
	if op.begun {
		p.pending--
		c.opEnded(p, op)
		c.leave(p)
	}
}

// opEnded goes on after an operation that was begun and is done.
func (c *Conn) opEnded(p *path, op *Operation) {
	q := &p.q
	e := q.at(op.pos)
	switch {
	case e.flags&entryQuiet != 0:
		c.retire(p, op.pos, op.pos+1)
	case op.pos == q.next && p.hold:
		p.hold, p.bound = false, false
		if op.status != Success || e.flags&entryCanceled != 0 {
			c.remove(p, op.pos, op.status)
		}
		if p.state == Up && p.ready(c) {
			c.act(Action{Kind: Transmit, Path: p.index})
		}
	}
}

// remove settles the message at pos, which is not written.
func (c *Conn) remove(p *path, pos uint64, status Status) {
	c.settle(p, pos, pos+1, func(*entry) (Status, bool) { return status, true })
	if c.fencePath(p); p.probe && p.state == Up { // the barrier may have waited for the message
		c.act(Action{Kind: Transmit, Path: p.index})
	}
}
