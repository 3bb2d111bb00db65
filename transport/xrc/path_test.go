//go:build !live

package xrc

import (
	"testing"
	"time"

	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/xrc/objects"
)

// linked are two hosts whose path 0 has a link.
func linked(t *testing.T, o hostOptions) (n *hostNet, a, b *host) {
	n, a, b = twoHosts(t, o)
	t.Cleanup(a.want(a.addr, b.addr))
	n.until("a link", func() bool { return a.connections() == 1 && b.connections() == 1 })
	return n, a, b
}

// suspended cuts the link of two hosts, whose path 0 waits for the next one.
func suspended(n *hostNet, a, b *host) (again func()) {
	n.Helper()
	again = apart(a, b)
	n.until("no link", func() bool { return a.connections()+b.connections() == 0 })
	n.until("suspended", func() bool {
		p, _ := a.path0()
		q, _ := b.path0()
		return p.suspended && q.suspended
	})
	return again
}

// RDS's own queue pairs: a lost connection is not their end, and no event. The next one of the
// path carries the same ones, on both sides.
func TestPathGoesOnAcrossConnections(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, a, b := linked(t, hostOptions{})
		pa, _ := a.path0()
		pb, _ := b.path0()
		if pa.initiator == (objects.Ref{}) || pb.target == (objects.Ref{}) || pa.suspended || pb.suspended {
			t.Fatalf("%+v, %+v", pa, pb)
		}
		info, err := a.session.QueryTarget(a.rds.domain, pa.target.Number)
		if err != nil || info.Peer.QP != pb.initiator || !info.Connected || info.Registered != 1 {
			t.Errorf("%+v, %v, and the peer's initiator is %v", info, err, pb.initiator)
		}
		for i := range 5 {
			again := suspended(n, a, b)
			again()
			n.until("a link", func() bool { return a.connections() == 1 && b.connections() == 1 })
			qa, _ := a.path0()
			qb, _ := b.path0()
			if qa != pa || qb != pb {
				t.Fatalf("connection %d: %+v and %+v instead of %+v and %+v", i, qa, qb, pa, pb)
			}
		}
		for _, h := range []*host{a, b} {
			if e, ok := h.session.PollEvent(); ok {
				t.Errorf("%+v", e)
			}
		}
	})
}

// When the grace is over the queue pairs of a path are gone, with nothing left, and the next
// connection has new ones.
func TestPathEndsWithTheGrace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, a, b := linked(t, hostOptions{xrc: objects.Config{Grace: 50 * time.Millisecond}})
		before, _ := a.path0()
		again := apart(a, b)
		n.until("nothing is left", func() bool {
			x, y := a.objects.Stats(), b.objects.Stats()
			return x.Initiators+x.TotalTargets()+y.Initiators+y.TotalTargets() == 0 && a.suspended.Load()+b.suspended.Load() == 0
		})
		again()
		n.until("a link", func() bool { return a.connections() == 1 && b.connections() == 1 })
		if after, ok := a.path0(); !ok || after == before {
			t.Errorf("%+v after %+v", after, before)
		}
	})
}

// A peer that has made its queue pairs anew, since it has forgotten the old ones, ends ours
// where it connects, and has ours go on where we do.
func TestPathOfAPeerThatHasForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, a, b := linked(t, hostOptions{})
		for _, forgetful := range []*host{b, a} {
			pa, _ := a.path0()
			pb, _ := b.path0()
			again := suspended(n, a, b)
			for _, p := range forgetful.allPeers() {
				p.paths[0].end()
			}
			again()
			n.until("a link", func() bool { return a.connections() == 1 && b.connections() == 1 })
			qa, _ := a.path0()
			qb, _ := b.path0()
			info, err := a.session.QueryTarget(a.rds.domain, qa.target.Number)
			if err != nil || info.Peer.QP != qb.initiator || qb.initiator == pb.initiator || (qa.initiator == pa.initiator) != (forgetful == b) {
				t.Errorf("%v has forgotten: %+v, %+v after %+v, %+v; %+v, %v", forgetful.addr, qa, qb, pa, pb, info, err)
			}
		}
	})
}

// Links that nobody puts to use, and knocks, leave no queue pairs.
func TestUnusedLinksLeaveNoQueuePairs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, hostOptions{xrc: objects.Config{Grace: 50 * time.Millisecond}}) // a keeper answers knocks with a link
		a, b := n.host(1), n.host(2)
		b.apart.Store(true) // closes what is accepted
		for i := range 20 {
			from, to := a, b
			if i%2 == 1 { // knocks
				from, to = b, a
			}
			l, err := from.Dial(within(t), from.addr, to.addr, i%maxPaths)
			if err == nil {
				l.Close(transport.Abort)
			}
		}
		n.until("nothing is left", func() bool {
			x, y := a.objects.Stats(), b.objects.Stats()
			return x.Initiators+x.TotalTargets()+y.Initiators+y.TotalTargets() == 0
		})
	})
}

// Paths that wait for a connection are bounded: what is beyond ends at once.
func TestSuspendedPathsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, a, b := linked(t, hostOptions{})
		b.suspended.Store(maxSuspended)
		again := apart(a, b)
		n.until("no queue pairs at the peer", func() bool { s := b.objects.Stats(); return s.Initiators+s.TotalTargets() == 0 })
		n.until("a suspended path", func() bool { p, ok := a.path0(); return ok && p.suspended })
		b.suspended.Store(0)
		again()
		n.until("a link", func() bool { return a.connections() == 1 && b.connections() == 1 })
	})
}
