package fabric

import (
	"cmp"
	"slices"

	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc"
	"github.com/rds-go/rds/xrc/setup"
)

// carrier is how the fabric carries a target, as xrc.Connection.
type carrier struct {
	p      *peer
	target *xrc.Target
	ref    xrc.Ref
	psn    uint32 // number of the initiator's first request
	tag    uint64 // tag of the domain, 0 if not known

	link *link // guarded by peer.mu; nil while suspended
}

// Close is the end of the target: the initiator hears of it.
func (c *carrier) Close(cause error) {
	p := c.p
	p.mu.Lock()
	if p.carriers[c.ref] == c {
		delete(p.carriers, c.ref)
		p.rescopeLocked()
	}
	p.mu.Unlock()
	if tellPeer(cause) {
		p.announce(c.ref)
	}
}

// tellPeer tells whether the other side does not know of an end by itself.
func tellPeer(cause error) bool {
	return cause != xrc.ErrPeerGone && cause != xrc.ErrIncarnation
}

// carry makes l carry a target that was connected just now, or was before.
func (p *peer) carry(l *link, ref xrc.Ref, tag uint64) error {
	t, err := p.f.xrc.Target(ref)
	if err != nil {
		return err
	}
	info := t.Info()
	p.mu.Lock()
	c := p.carriers[ref]
	if c == nil {
		c = &carrier{p: p, target: t, ref: ref, psn: info.Attr.RQPSN}
		p.carriers[ref] = c
	}
	if tag != 0 {
		c.tag = tag
	}
	c.link = l
	p.rescopeLocked()
	p.mu.Unlock()
	switch {
	case info.Connected:
	case info.Suspended:
		_, err = t.Resume(p.f.cfg.Now(), c, info.Peer, c.psn, c.psn)
	default:
		err = t.Attach(c)
	}
	if err != nil {
		c.Close(xrc.ErrPeerGone)
	}
	return err
}

// resume makes l carry a target again that was suspended.
func (p *peer) resume(l *link, from xrc.Peer, m *setup.Connect) (psn uint32, status setup.Status) {
	ref := xrc.Ref{Kind: xrc.KindTarget, Number: m.Target.Number, Generation: m.Target.Generation}
	p.mu.Lock()
	c := p.carriers[ref]
	p.mu.Unlock()
	if c == nil {
		return 0, setup.NotReady
	}
	if info := c.target.Info(); info.Connected && info.Peer.QP == from.QP {
		return c.psn, setup.Found // the peer has asked twice
	}
	// Before it is resumed, for it may end, and be closed, in the same moment.
	p.mu.Lock()
	c.link = l
	p.mu.Unlock()
	psn, err := c.target.Resume(p.f.cfg.Now(), c, from, m.PSN, m.Next)
	if err != nil {
		p.mu.Lock()
		c.link = nil
		p.mu.Unlock()
		return 0, setup.NotReady
	}
	return psn, setup.Found
}

// scope is a domain that a peer has targets in.
type scope struct {
	tag     uint64
	targets []*xrc.Target
}

func (p *peer) rescopeLocked() {
	var list []scope
	for _, c := range p.carriers {
		i := slices.IndexFunc(list, func(s scope) bool { return s.tag == c.tag && c.tag != 0 })
		if i < 0 {
			i = len(list)
			list = append(list, scope{tag: c.tag})
		}
		list[i].targets = append(list[i].targets, c.target)
	}
	p.scopes.Store(&list)
}

// finder is a link in its role of iwarp.Queues.
type finder link

// Find answers by the rules of xrc: a message reaches the queues of domains that
// its peer has a live target in, and no others.
func (x *finder) Find(number uint32) *iwarp.SRQ {
	if number == controlQueue {
		return x.control.srq
	}
	scopes := x.p.scopes.Load()
	if scopes == nil {
		return nil
	}
	for i := range *scopes {
		for _, t := range (*scopes)[i].targets {
			q, err := x.f.xrc.Resolve(number, t)
			if err == nil {
				return q.Queue().(*queue).srq.Load()
			}
			if err == xrc.ErrUnknownSRQ {
				break // the other targets of this domain do not find the queue either
			}
		}
	}
	return nil
}

func sortPairs(list []xrc.Pair) {
	slices.SortFunc(list, func(a, b xrc.Pair) int { return cmp.Compare(a.Ours.Number, b.Ours.Number) })
}
