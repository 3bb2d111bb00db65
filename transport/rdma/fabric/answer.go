package fabric

import (
	"github.com/rds-go/rds/xrc"
	"github.com/rds-go/rds/xrc/setup"
)

// answer does what the peer asks for in a request. found is whether there is
// something to keep a connection for.
func (p *peer) answer(l *link, m setup.Message) (answer setup.Message, found bool) {
	switch m := m.(type) {
	case *setup.Resolve:
		r := &setup.Resolved{ID: m.ID, Service: m.Service}
		a, status := p.f.xrc.Lookup(m.Service, p.remote)
		if r.Status = setup.Status(status); status == xrc.StatusFound {
			r.Queue = setup.Queue{SRQN: a.SRQN, Tag: a.Tag}
		}
		return r, false
	case *setup.Connect:
		r := p.connect(l, m)
		return r, r.Status == setup.Found
	}
	panic("fabric: an answer is asked for") // callers have looked at the type of the message
}

func (p *peer) connect(l *link, m *setup.Connect) *setup.Connected {
	refused := func(s setup.Status) *setup.Connected {
		return &setup.Connected{ID: m.ID, Status: s, Initiator: m.Initiator, Incarnation: p.f.xrc.Incarnation()}
	}
	if m.Host != p.remote || m.Incarnation != l.incarnation {
		return refused(setup.Rejected) // the peer speaks for another host
	}
	from := xrc.Peer{Host: p.remote, Incarnation: m.Incarnation,
		QP: xrc.Ref{Kind: xrc.KindInitiator, Number: m.Initiator.Number, Generation: m.Initiator.Generation}}
	yes := &setup.Connected{ID: m.ID, Status: setup.Found, Initiator: m.Initiator, Incarnation: p.f.xrc.Incarnation(), MTU: m.MTU, RdAtomic: m.RdAtomic}
	if m.Mode == setup.ModeResume {
		psn, status := p.resume(l, from, m)
		if status != setup.Found {
			return refused(status)
		}
		yes.PSN, yes.Target, yes.Reused = psn, m.Target, true
		return yes
	}
	request := xrc.ConnectRequest{From: from, Service: m.Service, PSN: m.PSN, MTU: int(m.MTU), RdAtomic: int(m.RdAtomic)}
	if m.Mode == setup.ModeJoin {
		request.Join = xrc.Ref{Kind: xrc.KindTarget, Number: m.Target.Number, Generation: m.Target.Generation}
	}
	reply, status := p.f.xrc.Connect(request)
	if status != xrc.StatusFound {
		return refused(setup.Status(status))
	}
	if err := p.carry(l, reply.Target, reply.Answer.Tag); err != nil {
		return refused(setup.NotReady)
	}
	yes.Target = setup.QP{Number: reply.Target.Number, Generation: reply.Target.Generation}
	yes.PSN, yes.MTU, yes.RdAtomic, yes.Reused = reply.PSN, uint16(reply.MTU), uint8(reply.RdAtomic), reply.Reused
	yes.Queue = setup.Queue{SRQN: reply.Answer.SRQN, Tag: reply.Answer.Tag}
	return yes
}
