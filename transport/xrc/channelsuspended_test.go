//go:build !live

package xrc

import (
	"testing"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc/objects"
)

func (ch *Channel) suspendedNow() bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.state == channelSuspended
}

// If the peer cannot tell any more what has come, the sender is told so, and
// nothing is sent twice.
func TestXRCREQ37UnknownFatesAreNotRepeatedOnTheWire(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, a, b := twoHosts(t, hostOptions{})
		server := b.app("")
		srq, m := server.serve(7, 0, 8)
		client, ch := a.client(2, 7)
		again := apart(a, b)
		n.until("suspended", ch.suspendedNow)
		// As if the message had been under way, and the connection were long forgotten.
		client.send(ch, iwarp.WorkRequest{ID: 1, Flags: iwarp.Signaled, Queue: ch.Queue().SRQN})
		ch.mu.Lock()
		slot := ch.waiting.All()[0]
		ch.waiting.Drop(1)
		ch.works[slot].state, ch.works[slot].lost, ch.works[slot].serial = workDoubtful, 4711, 1
		ch.mu.Unlock()
		client.send(ch, iwarp.WorkRequest{ID: 2, Flags: iwarp.Signaled, Queue: ch.Queue().SRQN})
		again()
		client.want(1, iwarp.Flushed, iwarp.OpSend)
		post(t, srq, 9, m.SGE(0, 1))
		client.want(2, iwarp.Success, iwarp.OpSend)
		server.want(9, iwarp.Success, iwarp.OpReceive)
	})
}

// What ends while there is no connection is found out when there is one again, on
// both sides.
func TestEndsWithoutAConnectionAreFoundOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, a, b := twoHosts(t, hostOptions{})
		server, doomed := b.app(""), b.app("")
		server.serve(7, 4, 8)
		doomed.serve(8, 4, 8)
		client, dying := a.app(""), a.app("")
		ch, orphan, lost := client.connect(2, 7), client.connect(2, 8), dying.connect(2, 7)
		again := apart(a, b)
		n.until("suspended", func() bool { return ch.suspendedNow() && orphan.suspendedNow() && lost.suspendedNow() })
		client.send(orphan, aMessage(orphan, 1))
		doomed.die()
		dying.die()
		again()
		client.want(1, iwarp.RetryExceeded, iwarp.OpSend)
		client.hears(objects.EventQPFatal, orphan.Ref())
		endedBy(t, orphan, objects.ErrPeerGone)
		server.hears(objects.EventQPFatal, lost.Target())
		client.says(ch, 2)
		if s := b.objects.Stats(); b.channelTargets() != 1 || s.Suspended != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// The limit of a queue is reached by messages from the wire.
func TestLimitOfASharedReceiveQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, a, b := twoHosts(t, hostOptions{})
		server := b.app("")
		srq, err := server.CreateSRQ(objects.SRQAttr{Domain: server.dom, PD: server.pd, CQ: server.cq, MaxWR: 8, Limit: 3})
		must(t, err)
		must(t, errOf(server.Advertise(objects.ServiceAttr{ID: 7, Domain: server.dom, SRQ: srq})))
		m := server.region(64, mr.LocalWrite)
		client, ch := a.client(2, 7)
		for round, limit := range []int{3, 2} {
			for srq.Query().Posted < 4 {
				must(t, errOf(srq.PostReceive(iwarp.ReceiveRequest{SGE: []iwarp.SGE{m.SGE(0, 64)}})))
			}
			for left := 3; left >= limit-1; left-- {
				if e, ok := server.PollEvent(); ok {
					t.Fatalf("round %d, %d left: %+v", round, left+1, e)
				}
				client.says(ch, 1)
			}
			server.hears(objects.EventSRQLimit, srq.Ref())
			if got := srq.Query().Limit; got != 0 {
				t.Errorf("the limit is still %d", got)
			}
			must(t, srq.Modify(objects.SRQLimit, 0, 2))
		}
	})
}

// A peer reaches queues of the domains in which it has targets, whatever numbers it
// tries, and regions by their keys only.
func TestXRCREQ47APeerReachesItsDomainsOnTheWire(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, a, b := twoHosts(t, hostOptions{})
		mine, other := b.app(""), b.app("")
		srq, _ := mine.serve(7, 64, 64)
		hidden, _ := other.serve(8, 64, 64)
		client, ch := a.client(2, 7)
		own := srq.Num()
		for from := uint32(2); from < 0x400; from += 64 {
			for q := from; q < from+64; q++ {
				client.send(ch, iwarp.WorkRequest{ID: uint64(q), Flags: iwarp.Signaled, Queue: q})
			}
			for range 64 {
				c := client.next()
				if (c.Status == iwarp.Success) != (c.ID == uint64(own)) {
					t.Fatalf("queue %#x: %v", c.ID, c.Status)
				}
			}
		}
		if hidden.Query().Posted != 64 || srq.Query().Posted != 63 {
			t.Errorf("%+v, %+v", hidden.Query(), srq.Query())
		}
	})
}

// A channel that has its answer by a connection that is lost, and replaced, before it
// uses it goes on by the next one: that has looked for suspended channels by then, and
// would not do so again.
func TestAChannelThatMissesItsConnectionUsesTheNext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, a, b := twoHosts(t, hostOptions{})
		server, client := b.app(""), a.app("")
		server.serve(7, 4, 8)
		ch, other := client.connect(2, 7), client.connect(2, 7)
		ch.mu.Lock()
		first := ch.mux
		ch.state, ch.mux = channelConnecting, nil // where it is between the answer and its use
		ch.mu.Unlock()
		a.cut()
		n.until("the next connection", when(&other.mu, func() bool { return other.mux != nil && other.mux != first }))
		ch.activate(first)
		client.send(ch, iwarp.WorkRequest{ID: 1, Flags: iwarp.Signaled, Queue: ch.Queue().SRQN})
		client.want(1, iwarp.Success, iwarp.OpSend)
	})
}
