//go:build !live

package objects

import (
	"context"
	"strings"
	"testing"

	"github.com/rds-go/rds/transport/iwarp"
)

// A shared receive queue with a sink takes no receives, completes nowhere, and has a number of
// its own kind. Targets of its domain find it like any other, until its session ends.
func TestQueueWithASink(t *testing.T) {
	g, p := oneProcess(t)
	for field, a := range map[string]SRQAttr{
		"Sink":   {Domain: p.dom, PD: p.pd, Sink: true, CQ: p.cq},
		"Sink\n": {Domain: p.dom, PD: p.pd, Sink: true, MaxWR: 1},
		"Domain": {PD: p.pd, Sink: true},
		"MaxWR":  {Domain: p.dom, PD: p.pd, CQ: p.cq},
		"CQ":     {Domain: p.dom, PD: p.pd, MaxWR: 1},
	} {
		_, err := p.CreateSRQ(a)
		g.want(err, ErrAttribute)
		if want := "SRQAttr." + strings.TrimSpace(field) + ":"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, which is about %s", err, want)
		}
	}
	q, err := p.CreateSRQ(SRQAttr{Domain: p.dom, PD: p.pd, Sink: true})
	g.ok(err)
	n := q.Num()
	if !HasSink(n) || KindOf(n) != KindSRQ || HasSink(p.srq(1).Num()) {
		t.Errorf("number %#x", n)
	}
	if _, err := q.PostReceive(iwarp.ReceiveRequest{}); err == nil {
		t.Error("a receive was posted")
	}
	tgt, _ := p.up(peer(1))
	if got, err := g.Resolve(n, tgt); got != q || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	g.want(g.send(tgt, n), errEmpty)
	g.ok(q.Close(ctx))
	g.want(errOf(g.Resolve(n, tgt)), ErrUnknownSRQ)
	if again, err := p.CreateSRQ(SRQAttr{Domain: p.dom, PD: p.pd, Sink: true}); err != nil || again.Num() == n {
		t.Errorf("the number %#x is given again at once, %v", n, err)
	}
}

// A session that shares a domain has a handle of its own: the domain lives as long as either,
// and targets that the one makes are registered with by the other.
func TestSharedDomain(t *testing.T) {
	g, p := oneProcess(t)
	s := g.session("other")
	dom, err := s.ShareDomain(p.dom)
	g.ok(err)
	if dom.Tag() != p.dom.Tag() {
		t.Error("another domain")
	}
	r := p.target()
	g.ok(errOf(s.Register(dom, r.Number)))
	g.ok(p.Session.Close(ctx))
	same(t, "targets: the other session is registered", g.Stats().TotalTargets(), 1)
	g.want(errOf(s.ShareDomain(p.dom)), ErrForeign)
	g.ok(s.Unregister(ctx, dom, r.Number))
	g.ok(dom.Close())
	same(t, "domains", g.Stats().Domains, 0)
}

// Queue pairs of which each set-up tells are not asked for; others are.
func TestImpliedQueuePairsAreNotAskedFor(t *testing.T) {
	g, p := oneProcess(t)
	r, err := p.CreateTarget(TargetAttr{Domain: p.dom, Implied: true})
	g.ok(err)
	p.connect(r, peer(1))
	tgt, _ := p.up(peer(2))
	if list := g.Pairs(hostA); len(list) != 1 || list[0].Ours != tgt.ref {
		t.Errorf("%v", list)
	}
}

// A queue pair whose peer has another one now goes on with that, under its own name; one that
// is connected does not.
func TestRename(t *testing.T) {
	g, p := oneProcess(t)
	tgt, c := p.up(peer(1))
	was := tgt.Info().Ref
	g.want(tgt.Rename(peer(2)), ErrState)
	g.ok(tgt.Suspend(g.clk.now()))
	g.ok(tgt.Rename(peer(2)))
	if i := tgt.Info(); i.Ref != was || i.Peer.QP != peer(2).QP || i.Attr.DestQPN != peer(2).QP.Number || i.Suspended {
		t.Errorf("%+v", i)
	}
	g.clk.advance(g.config.Grace)
	g.Expire(g.clk.now())
	if n := g.PeerGone(hostA, peer(1).QP); n != 0 || tgt.State() != StateRTR {
		t.Errorf("the end of the old queue pair ended %d, %v", n, tgt.State())
	}
	g.alive(c)
	next := &conn{}
	g.ok(tgt.Attach(next))
	same(t, "the end of the new one ended", g.PeerGone(hostA, peer(2).QP), 1)
	g.ended(next, ErrPeerGone)
	g.events(p.Session, EventQPFatal, EventLastWQE)
	g.ok(p.Unregister(context.Background(), p.dom, was.Number))
	g.want(tgt.Rename(peer(1)), ErrState)
}
