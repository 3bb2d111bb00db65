//go:build !live

package xrc

import (
	"testing"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc/objects"
)

// Two processes of one host have targets in one job each. Neither reaches a queue or a region of the
// other job, by any kind of request, though their host reaches both: the scan of all small numbers
// finds the queue of the process's own job only. The job that is not reached notices nothing.
func TestXRCREQ47AProcessReachesItsOwnTargetsDomain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, a, b := twoHosts(t, unpaced)
		x, y := b.app("mine"), b.app("others")
		qx, _ := x.serve(1, 4, 64)
		qy, _ := y.serve(2, 4, 64)
		mx, my := x.region(64, everyRight), y.region(64, everyRight)
		mine, others := a.app(""), a.app("")
		local := mine.region(64, mr.LocalWrite)
		ch, foreign := mine.connect(2, 1), others.connect(2, 2)
		others.says(foreign, 1) // the host reaches both jobs
		if c := y.next(); c.Status != iwarp.Success {
			t.Fatalf("%+v", c)
		}
		numbers := []uint32{qy.Num()}
		for k := uint32(2); k < 1<<11; k++ {
			numbers = append(numbers, k)
		}
		for _, k := range numbers {
			if k == qx.Num() {
				continue
			}
			w := aMessage(ch, uint64(k))
			w.Queue = k
			mine.send(ch, w, tagged(iwarp.OpWrite, k, my, local))
			mine.want(uint64(k), iwarp.RemoteInvalidRD, iwarp.OpSend)
			mine.want(uint64(k), iwarp.RemoteAccess, iwarp.OpWrite)
		}
		for _, op := range taggedOps {
			mine.send(ch, tagged(op, qy.Num(), my, local))
			mine.want(uint64(qy.Num()), iwarp.RemoteAccess, op)
			mine.send(ch, tagged(op, qx.Num(), mx, local))
			mine.want(uint64(qx.Num()), iwarp.Success, op)
		}
		// A message is refused with the Write that it builds on, and not what is behind it.
		m := iwarp.WorkRequest{ID: 4, Op: iwarp.OpSend, Flags: iwarp.Signaled, Queue: qx.Num(), Writes: 2, Inline: []byte("x")}
		mine.send(ch, tagged(iwarp.OpWrite, qx.Num(), mx, local), tagged(iwarp.OpWrite, qy.Num(), my, local), m, aMessage(ch, 5))
		mine.want(uint64(qx.Num()), iwarp.RemoteAccess, iwarp.OpWrite)
		mine.want(uint64(qy.Num()), iwarp.RemoteAccess, iwarp.OpWrite)
		mine.want(4, iwarp.RemoteAccess, iwarp.OpSend)
		mine.want(5, iwarp.Success, iwarp.OpSend)
		y.noticesNothing(my)
		if ch.Err() != nil || foreign.Err() != nil || a.dials.Load() != 1 || qy.Query().Posted != 3 {
			t.Errorf("%v, %v, %d connections, %+v", ch.Err(), foreign.Err(), a.dials.Load(), qy.Query())
		}
	})
}

// What the peer has said of a queue is forgotten when the queue ends, and when the connection is
// lost, so that a number that is used again names nothing that the channel does not reach.
func TestXRCREQ47AQueueNumberThatIsUsedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, a, b := twoHosts(t, hostOptions{xrc: objects.Config{RestCount: 1}})
		x, y := b.app("mine"), b.app("others")
		qx, _ := x.serve(1, 8, 64)
		qy, _ := y.serve(2, 8, 64)
		mine, others := a.app(""), a.app("")
		ch, foreign := mine.connect(2, 1), others.connect(2, 2)
		reaches := func(ch *Channel, q *objects.SRQ) bool {
			ch.mu.Lock()
			defer ch.mu.Unlock()
			_, ok := ch.reaches[q.Num()]
			return ok
		}
		for k, q := range map[*Channel]*objects.SRQ{ch: qx, foreign: qy} {
			w := aMessage(k, 1)
			w.Queue = q.Num()
			from := mine
			if k == foreign {
				from = others
			}
			from.send(k, w)
			from.want(1, iwarp.Success, iwarp.OpSend)
			if !reaches(k, q) {
				t.Error("what the peer has said is not kept")
			}
		}
		a.cut()
		n.until("both are resumed", func() bool { return a.ChannelStats().Resumed == 2 })
		if reaches(ch, qx) || reaches(foreign, qy) {
			t.Error("what the peer said on a connection that was lost is kept")
		}
		mine.says(ch, 2)
		old := qx.Num()
		must(t, qx.Close(within(t)))
		n.until("the end of the queue is heard", func() bool { return !reaches(ch, qx) })
		var again *objects.SRQ
		for again == nil || again.Num() != old { // in the other job
			var err error
			again, err = y.CreateSRQ(objects.SRQAttr{Domain: y.dom, PD: y.pd, CQ: y.cq, MaxWR: 1})
			must(t, err)
		}
		mine.send(ch, aMessage(ch, 3))
		mine.want(3, iwarp.RemoteInvalidRD, iwarp.OpSend)
		endedBy(t, ch, nil)
	})
}

// A peer that does not keep to the limits of its targets is bound by what they allow together: what
// none of its targets in the domain allows is refused, for the request alone.
func TestAHostThatLiesIsBoundByItsTargets(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, a, b := twoHosts(t, unpaced)
		server := b.app("")
		srq, _ := server.serve(7, 16, 64)
		memory := server.region(64, everyRight)
		client := a.app("")
		local := client.region(64, mr.LocalWrite)
		needs := map[iwarp.Op]mr.Rights{iwarp.OpWrite: mr.RemoteWrite, iwarp.OpRead: mr.RemoteRead, iwarp.OpFetchAdd: mr.RemoteAtomic, iwarp.OpCompareSwap: mr.RemoteAtomic}
		connect := func(service uint64, access mr.Rights, reads int) *Channel {
			t.Helper()
			must(t, errOf(server.Advertise(objects.ServiceAttr{ID: service, Domain: server.dom, SRQ: srq, Access: access})))
			ch := client.connectAs(2, ChannelAttr{Service: service, Reads: reads})
			lie(ch)
			return ch
		}
		check := func(ch *Channel, allowed mr.Rights) {
			t.Helper()
			for _, op := range taggedOps {
				want := iwarp.RemoteAccess
				if allowed&needs[op] != 0 {
					want = iwarp.Success
				}
				client.send(ch, tagged(op, srq.Num(), memory, local))
				client.want(uint64(srq.Num()), want, op)
			}
			client.says(ch, 1)
			if c := server.next(); c.Status != iwarp.Success {
				t.Fatalf("%+v", c)
			}
		}
		first := connect(101, mr.RemoteRead, 4)
		check(first, mr.RemoteRead)
		second := connect(102, mr.RemoteWrite|mr.RemoteAtomic, 0) // no depth for atomics
		check(first, mr.RemoteRead|mr.RemoteWrite)
		check(second, mr.RemoteRead|mr.RemoteWrite)
		rts := objects.Attr{State: objects.StateRTS, Access: mr.RemoteAtomic}
		must(t, server.ModifyTarget(server.dom, first.Target().Number, rts, objects.MaskState|objects.MaskTimeout|objects.MaskAccess))
		n.until("the peer hears", when(&first.mu, func() bool { return first.limits.access == mr.RemoteAtomic }))
		lie(first)
		check(first, mr.RemoteAtomic|mr.RemoteWrite)
		must(t, second.Close(within(t)))
		n.until("the second target has gone", func() bool {
			p := b.allPeers()[0]
			p.mu.Lock()
			defer p.mu.Unlock()
			return len(p.carriers) == 1
		})
		check(first, mr.RemoteAtomic)
		again := apart(a, b)
		n.until("suspended", func() bool { return first.suspendedNow() && b.objects.Stats().Suspended >= 1 })
		rts.Access = mr.RemoteWrite // while nothing carries the target
		must(t, server.ModifyTarget(server.dom, first.Target().Number, rts, objects.MaskAccess))
		again()
		n.until("resumed", func() bool { return a.ChannelStats().Resumed == 1 })
		lie(first)
		check(first, mr.RemoteWrite)
		if first.Err() != nil || a.dials.Load() != 2 {
			t.Errorf("%v, %d connections", first.Err(), a.dials.Load())
		}
	})
}

// lie has a channel ignore the limits that its target's host has told.
func lie(ch *Channel) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.limits.access, ch.depth = remoteRights, 4
}
