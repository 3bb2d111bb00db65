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
	operators // links are transport.Operators, now or when last seen
)

func carriageOf(l transport.Link) carriage {
	if _, ok := l.(transport.Operator); ok {
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

// beginLocked gives the operation that Fill has shown to the link, and tells
// whether to write what Fill has shown besides, and else whether to go on with
// another Fill. It releases p.mu meanwhile.
func (p *peer) beginLocked(i int, link transport.Link) (write, more bool) {
	io := &p.path[i]
	t := &io.tx
	l, ok := link.(transport.Operator)
	if !ok {
		p.core.OpRefused(i)
		p.core.Wrote(i, 0)
		return false, true
	}
	op := t.batch.Op.Work.(*operation)
	if !p.trustsLocked(op) {
		p.node.counters.sendAgain.Add(1)
		p.core.OpAgain(i)
		p.core.Wrote(i, 0)
		return false, io.ended == nil
	}
	op.path = i
	op.s.ops.add(op)
	io.ops++
	p.mu.Unlock()
	taken, err := l.Operate(op.list)
	if !taken || err != nil {
		if late, canceled := op.s.ops.remove(op); canceled {
			op.s.endedLate(late)
		}
	}
	p.mu.Lock()
	if !taken || err != nil {
		io.ops--
		if err != nil {
			p.core.OpRefused(i)
		}
		p.core.Wrote(i, 0)
		if err == nil && !t.again {
			t.blocked = io.ended == nil
			return false, false
		}
		return false, io.ended == nil
	}
	p.node.counters.operated(op)
	p.core.Began(i)
	if len(t.batch.Bufs) > 0 {
		return true, true
	}
	p.core.Wrote(i, 0)
	return false, io.ended == nil
}

// writeTo writes a batch to a link.
func writeTo(link transport.Link, b *conn.Batch) (int, error) {
	if b.Behind {
		return link.(transport.Operator).WriteBehind(b.Bufs)
	}
	return link.Writev(b.Bufs)
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
