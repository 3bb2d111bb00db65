package xrc

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc/objects"
)

// carrier is how a mux carries a target, as objects.Connection.
type carrier struct {
	p      *peer
	target *objects.Target
	ref    objects.Ref

	heard atomic.Bool // a message has come for the target

	mux *mux // guarded by peer.mu; nil while suspended
}

// Close is the end of the target: the initiator hears of it.
func (c *carrier) Close(cause error) {
	p := c.p
	p.mu.Lock()
	if p.carriers[c.ref] == c {
		delete(p.carriers, c.ref)
		delete(p.altered, c.ref)
		p.reach.removeLocked(c)
	}
	p.mu.Unlock()
	if tellPeer(cause) {
		p.announce(c.ref)
	}
}

// tellPeer tells whether the other side does not know of an end by itself.
func tellPeer(cause error) bool {
	return cause != objects.ErrPeerGone && cause != objects.ErrIncarnation
}

// carry makes m carry a target that was connected just now, or was before.
func (p *peer) carry(m *mux, ref objects.Ref) error {
	t, err := p.t.objects.Target(ref)
	if err != nil {
		return err
	}
	info := t.Info()
	p.mu.Lock()
	c := p.carriers[ref]
	if c == nil {
		c = &carrier{p: p, target: t, ref: ref}
		p.carriers[ref] = c
	}
	c.mux = m
	p.reach.addLocked(c)
	p.mu.Unlock()
	switch {
	case info.Connected:
	case info.Suspended:
		err = t.Resume(p.t.now(), c, info.Peer)
	default:
		err = t.Attach(c)
	}
	if err != nil {
		c.Close(objects.ErrPeerGone)
		return err
	}
	p.accept(c)
	return nil
}

// accept looks again at what a target accepts, which may have changed while nothing carried the target.
func (p *peer) accept(c *carrier) {
	p.mu.Lock()
	p.reach.changedLocked(c)
	p.mu.Unlock()
}

// resume makes m carry a target again that was suspended.
func (p *peer) resume(m *mux, from objects.Peer, r *connect) objects.Status {
	ref := r.target
	ref.Kind = objects.KindTarget
	p.mu.Lock()
	c := p.carriers[ref]
	p.mu.Unlock()
	if c == nil {
		return objects.StatusNotReady
	}
	if info := c.target.Info(); info.Connected && info.Peer.QP == from.QP {
		return objects.StatusFound // the peer has asked twice
	}
	// Before it is resumed, for it may end, and be closed, in the same moment.
	p.mu.Lock()
	c.mux = m
	p.mu.Unlock()
	if err := c.target.Resume(p.t.now(), c, from); err != nil {
		p.mu.Lock()
		c.mux = nil
		p.mu.Unlock()
		return objects.StatusNotReady
	}
	p.accept(c)
	return objects.StatusFound
}

// finder is a link in its role of iwarp.Queues.
type finder link

// Find answers by the rules of package rds/xrc: a message reaches the queues of domains that
// its peer has a live target in, and no others. A queue of RDS that the peer has been told of
// and that is gone is the node's own now, by which ports are looked up all the same.
func (x *finder) Find(number uint32) *iwarp.SRQ {
	q, _ := x.find(number)
	return q
}

// find returns also which rights a Write, read or atomic that names the queue may use.
func (x *finder) find(number uint32) (*iwarp.SRQ, mr.Rights) {
	t := x.t
	switch {
	case number == t.rds.number:
		return t.rds.sink, remoteRights
	case number == controlQueue: // messages alone go by it
		if x.mux == nil {
			return nil, 0
		}
		return x.mux.control.queue(), 0
	}
	if told, ok := x.told.Load(number); ok {
		if q := told.(*Queue); !q.gone.Load() {
			return q.sink, remoteRights
		}
		return t.rds.sink, remoteRights
	}
	if q, accepts := x.p.reach.find(t.objects, number); q != nil {
		return q.SRQ, accepts
	}
	return nil, 0
}

// Target finds the queue for a message that names a target: it must be one of the peer's, and the
// queue of its domain. The first message to a target in StateRTR is an event of all who are
// registered.
func (x *finder) Target(queue, target uint32) *iwarp.SRQ {
	if queue == controlQueue {
		return x.Find(queue)
	}
	c := x.p.reach.target(target)
	if c == nil {
		return nil
	}
	q, err := x.t.objects.Resolve(queue, c.target)
	if err != nil {
		return nil
	}
	if !c.heard.Load() && !c.heard.Swap(true) {
		x.t.work.Go(func() { _ = c.target.Raise(objects.EventCommEstablished, nil) }) // fails if the target has ended
	}
	return q.SRQ
}

func sortPairs(list []objects.Pair) {
	slices.SortFunc(list, func(a, b objects.Pair) int { return cmp.Compare(a.Ours.Number, b.Ours.Number) })
}
