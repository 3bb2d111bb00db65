package xrc

import (
	"github.com/rds-go/rds/xrc/objects"
)

// answer does what the peer asks for in a request, which came by m; nil: by a question.
func (p *peer) answer(m *mux, request message) message {
	switch r := request.(type) {
	case *resolve:
		a, status := p.t.objects.Lookup(r.service, p.remote)
		return &resolved{service: r.service, status: status, queue: a}
	case *connect:
		return p.connect(m, r)
	}
	panic("xrc: an answer is asked for") // callers have looked at the type of the message
}

func (p *peer) connect(m *mux, r *connect) *connected {
	refused := func(s objects.Status) *connected {
		return &connected{status: s, initiator: r.initiator, incarnation: p.t.objects.Incarnation()}
	}
	if r.host != p.remote || r.incarnation != m.incarnation {
		return refused(objects.StatusRejected) // the peer speaks for another host
	}
	from := objects.Peer{Host: p.remote, Incarnation: r.incarnation, QP: r.initiator}
	from.QP.Kind = objects.KindInitiator
	yes := &connected{initiator: r.initiator, incarnation: p.t.objects.Incarnation(), mtu: r.mtu, reads: r.reads, echo: r.echo}
	if r.mode == modeResume {
		if status := p.resume(m, from, r); status != objects.StatusFound {
			return refused(status)
		}
		yes.target, yes.reused = r.target, true
		p.tell(yes)
		return yes
	}
	request := objects.ConnectRequest{From: from, Service: r.service, MTU: int(r.mtu), RdAtomic: int(r.reads)}
	if r.mode == modeJoin {
		request.Join = r.target
		request.Join.Kind = objects.KindTarget
	}
	reply, status := p.t.objects.Connect(request)
	if status != objects.StatusFound {
		return refused(status)
	}
	if err := p.carry(m, reply.Target); err != nil {
		return refused(objects.StatusNotReady)
	}
	yes.target, yes.mtu, yes.reads, yes.reused = reply.Target, uint16(reply.MTU), uint8(reply.RdAtomic), reply.Reused
	yes.queue = reply.Answer
	p.tell(yes)
	return yes
}

// tell adds to an answer what the target allows.
func (p *peer) tell(yes *connected) {
	ref := yes.target
	ref.Kind = objects.KindTarget
	p.mu.Lock()
	c := p.carriers[ref]
	p.mu.Unlock()
	if c != nil {
		if a := c.target.Info().Attr; a.State != objects.StateError {
			yes.limits, yes.reads = limitsOf(&a), uint8(a.MaxDestRdAtomic)
		}
	}
}
