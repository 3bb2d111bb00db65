package node

import (
	"cmp"
	"context"
	"net"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/transport"
)

// Carriage is what is known of a connection's transport.
type Carriage uint8

const (
	Undecided Carriage = iota // no link has come up yet
	Plain
	Operators // links carry operations, now or when last seen
)

func carriageOf(l transport.Link) Carriage {
	if l.Caps().Operations {
		return Operators
	}
	return Plain
}

// carriesLocked follows the start of a link on path i.
func (p *Peer) carriesLocked(i int, l transport.Link) {
	if i == 0 {
		p.Carries = carriageOf(l)
		p.Node.Server().ShowCarriage(p)
	}
}

// carriedLocked tells whether path i may be given a message that says something
// about memory: an socket.UnservedError if it may not.
func (p *Peer) carriedLocked(i int) error {
	if l := p.Link(i); p.Carries != Operators || l != nil && carriageOf(l) != Operators {
		return p.unserved()
	}
	return nil
}

// unserved is the error of an RDMA call to the peer.
func (p *Peer) unserved() error {
	wire, why := p.servedBy()
	return &socket.UnservedError{Peer: p.Remote, Wire: cmp.Or(wire, string(config.WireTCP)), Why: why}
}

// AwaitOperators returns nil when the connection is one that carries
// operations, having made it connect if that is not known.
func (s *Socket) AwaitOperators(ctx context.Context, p *Peer, block bool) error {
	if !s.Node.Operates() {
		return datagram.ErrNotSupported
	}
	if err := s.lookOperators(p); err != datagram.ErrWouldBlock || !block {
		return err
	}
	for {
		w := p.waiters.Add()
		err := s.lookOperators(p)
		if err == datagram.ErrWouldBlock && block {
			if err = s.WriteDeadline.Err(); err == nil {
				err = ctx.Err()
			}
			if err == nil {
				if err = w.Wait(ctx); err == nil {
					err = datagram.ErrWouldBlock // the link has changed: look again
				}
			}
		}
		p.waiters.Done(w)
		if err != datagram.ErrWouldBlock || !block {
			return err
		}
	}
}

// lookOperators looks once. What is not known is ErrWouldBlock.
func (s *Socket) lookOperators(p *Peer) error {
	if s.Closed.Load() || p.Gone() {
		return net.ErrClosed
	}
	if p.Barred.Load() {
		return &socket.NotAllowedError{Peer: p.Remote}
	}
	p.Lock()
	switch p.Carries {
	case Operators:
		p.Unlock()
		return nil
	case Plain:
		p.Unlock()
		return p.unserved()
	}
	p.Core.Connect(time.Now())
	p.Arm()
	p.Commit()
	return datagram.ErrWouldBlock
}

// Begins lets an operation begin if the peer trusts its socket. It is the link's from now
// on, unless NotBegun says otherwise.
func (o *driven) Begins(i int, c *conn.Operation) bool {
	op := c.Work.(*Operation)
	if !o.peer().trustsLocked(op) {
		o.Node.Counters.sendAgain.Add(1)
		return false
	}
	op.path = i
	op.S.ops.add(op)
	return true
}

// Begun counts an operation that the link has begun.
func (o *driven) Begun(c *conn.Operation) { o.Node.Counters.operated(c.Work.(*Operation)) }

// NotBegun takes an operation back that the link has not begun.
func (o *driven) NotBegun(c *conn.Operation) {
	op := c.Work.(*Operation)
	if late, canceled := op.S.ops.remove(op); canceled {
		op.S.endedLate(late)
	}
}

// operated follows the end of an operation that was begun.
func (p *Peer) operated(op *Operation) {
	p.Lock()
	p.learnLocked(op)
	i := op.path
	p.Unlock()
	p.OpDone(i, &op.Core, op.status())
}
