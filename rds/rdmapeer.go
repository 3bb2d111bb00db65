package rds

import (
	"context"
	"net"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/choice"
)

// carriage is what is known of a connection's transport.
type carriage uint8

const (
	undecided carriage = iota // no link has come up yet
	plain
	operators // links carry operations, now or when last seen
)

func carriageOf(l transport.Link) carriage {
	if l.Caps().Operations {
		return operators
	}
	return plain
}

// carriesLocked follows the start of a link on path i.
func (p *peer) carriesLocked(i int, l transport.Link) {
	if i == 0 {
		p.carries = carriageOf(l)
		p.node.server().showCarriage(p)
	}
}

// carriedLocked tells whether path i may be given a message that says something
// about memory: an unservedError if it may not.
func (p *peer) carriedLocked(i int) error {
	if l := p.Link(i); p.carries != operators || l != nil && carriageOf(l) != operators {
		return p.unserved()
	}
	return nil
}

// unserved is the error of an RDMA call to the peer.
func (p *peer) unserved() error {
	e := &unservedError{peer: p.remote, wire: p.via().Name()}
	if c, ok := p.via().(*choice.Transport); ok {
		e.wire, e.why = c.Chosen(p.local.addr, p.remote), c.State(p.local.addr, p.remote).Reason
	}
	if e.wire == "" {
		e.wire = string(WireTCP)
	}
	return e
}

// awaitOperators returns nil when the connection is one that carries
// operations, having made it connect if that is not known.
func (s *nodeSocket) awaitOperators(ctx context.Context, p *peer, block bool) error {
	if !s.node.operates() {
		return ErrNotSupported
	}
	if err := s.lookOperators(p); err != ErrWouldBlock || !block {
		return err
	}
	for {
		w := p.waiters.add()
		err := s.lookOperators(p)
		if err == ErrWouldBlock && block {
			if err = s.wdl.err(); err == nil {
				err = ctx.Err()
			}
			if err == nil {
				if err = w.wait(ctx); err == nil {
					err = ErrWouldBlock // the link has changed: look again
				}
			}
		}
		p.waiters.done(w)
		if err != ErrWouldBlock || !block {
			return err
		}
	}
}

// lookOperators looks once. What is not known is ErrWouldBlock.
func (s *nodeSocket) lookOperators(p *peer) error {
	if s.closed.Load() || p.Gone() {
		return net.ErrClosed
	}
	if p.barred.Load() {
		return &notAllowedError{p.remote}
	}
	p.Lock()
	switch p.carries {
	case operators:
		p.Unlock()
		return nil
	case plain:
		p.Unlock()
		return p.unserved()
	}
	p.Core.Connect(p.node.now())
	p.Arm()
	p.Commit()
	return ErrWouldBlock
}

// Begins lets an operation begin if the peer trusts its socket. It is the link's from now
// on, unless NotBegun says otherwise.
func (o *driven) Begins(i int, c *conn.Operation) bool {
	op := c.Work.(*operation)
	if !o.peer().trustsLocked(op) {
		o.node.counters.sendAgain.Add(1)
		return false
	}
	op.path = i
	op.s.ops.add(op)
	return true
}

// Begun counts an operation that the link has begun.
func (o *driven) Begun(c *conn.Operation) { o.node.counters.operated(c.Work.(*operation)) }

// NotBegun takes an operation back that the link has not begun.
func (o *driven) NotBegun(c *conn.Operation) {
	op := c.Work.(*operation)
	if late, canceled := op.s.ops.remove(op); canceled {
		op.s.endedLate(late)
	}
}

// operated follows the end of an operation that was begun.
func (p *peer) operated(op *operation) {
	p.Lock()
	p.learnLocked(op)
	i := op.path
	p.Unlock()
	p.OpDone(i, &op.core, op.status())
}
