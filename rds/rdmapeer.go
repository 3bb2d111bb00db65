package rds

import (
	"context"
	"net"
	"net/netip"

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
	c := carriageOf(l)
	if c == plain {
		p.core.Plain(i)
	}
	if i == 0 {
		p.carries = c
		if svc := p.node.service.Load(); svc != nil {
			svc.showCarriage(p)
		}
	}
}

// carriedLocked tells whether path i may be given a message that says something
// about memory: an unservedError if it may not.
func (p *peer) carriedLocked(i int) error {
	if l := p.path[i].link; p.carries != operators || l != nil && carriageOf(l) != operators {
		return p.unserved()
	}
	return nil
}

// unservedError is the ErrNotSupported of an RDMA call to a peer whose transport carries
// no operations.
type unservedError struct {
	peer netip.Addr
	wire string // the wire that serves the peer
	why  string // why that wire serves the peer; may be empty
}

func (e *unservedError) Error() string {
	s := e.peer.String() + " is served by " + e.wire
	if e.why != "" {
		s += " (" + e.why + ")"
	}
	return s + ", which carries no RDMA: " + ErrNotSupported.Error()
}

func (e *unservedError) Unwrap() error { return ErrNotSupported }

// unserved is the error of an RDMA call to the peer.
func (p *peer) unserved() error {
	e := &unservedError{peer: p.remote, wire: p.node.serving(p.local.addr, p.remote)}
	if c, ok := p.node.via(p.remote).(*choice.Transport); ok {
		e.why = c.State(p.local.addr, p.remote).Reason
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
	if s.closed.Load() || p.gone.Load() {
		return net.ErrClosed
	}
	if p.barred.Load() {
		return &notAllowedError{p.remote}
	}
	p.mu.Lock()
	switch p.carries {
	case operators:
		p.mu.Unlock()
		return nil
	case plain:
		p.mu.Unlock()
		return p.unserved()
	}
	p.core.Connect(p.node.now())
	p.armLocked()
	p.unlock(nil)
	return ErrWouldBlock
}

// beginsLocked is conn.Config.Begins: an operation that may begin is the link's from now on,
// unless given says otherwise.
func (p *peer) beginsLocked(i int, o *conn.Operation) bool {
	op := o.Work.(*operation)
	if !p.trustsLocked(op) {
		p.node.counters.sendAgain.Add(1)
		return false
	}
	op.path = i
	op.s.ops.add(op)
	p.path[i].ops++
	return true
}

// begunOf is how many of the operations of a batch a link has begun.
func begunOf(b *conn.Batch, n transport.Taken) (begun int) {
	for begun < len(b.Ops) && (b.Ops[begun].Frame < n.Frames || b.Ops[begun].Frame == n.Frames && n.Ops) {
		begun++
	}
	return begun
}

// aboutFrame tells whether an error of Send is about a frame, and not about the link.
func aboutFrame(err error) bool {
	_, ok := err.(*transport.FrameError)
	return ok
}

// given follows a Send: operations that the link has not begun are not its. The caller is
// the writer, without p.mu.
func (p *peer) given(b *conn.Batch, n transport.Taken) {
	begun := begunOf(b, n)
	for i := range b.Ops {
		op := b.Ops[i].Op.Work.(*operation)
		if i < begun {
			p.node.counters.operated(op)
		} else if late, canceled := op.s.ops.remove(op); canceled {
			op.s.endedLate(late)
		}
	}
}

// operated follows the end of an operation that was begun.
func (p *peer) operated(op *operation) {
	p.mu.Lock()
	i := op.path
	io := &p.path[i]
	io.ops--
	status := op.status()
	p.learnLocked(op)
	if status == StatusDropped {
		p.core.LinkFailed(io.id) // before the link's end is heard: messages that wait are for the next link
	}
	p.core.OpDone(i, &op.core, status)
	if e := io.ended; e != nil && io.ops == 0 && !io.tx.busy {
		io.ended = nil
		p.endedLocked(i, io.id, e.cause, e.acked)
		return
	}
	p.unlock(nil)
}
