package xrc

import (
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc/objects"
)

// A request names a queue of the peer and no target, and the peer takes it for each queue of the
// domains that our host has targets in. So that a channel reaches the domain of its own target
// alone, the channel asks which queues that domain has: each before its first request, in a
// recordAsk, and again when the connection was lost or the queue has ended. Requests that name
// another queue are not sent.

// reachesLocked tells whether the peer has said of each queue that requests name that the target's
// domain has it. If not, run asks.
func (ch *Channel) reachesLocked(slots []uint32) bool {
	for _, slot := range slots {
		if n := ch.works[slot].wr.Queue; n != ch.reached {
			if _, ok := ch.reaches[n]; !ok {
				ch.unsure = true
				return false
			}
			ch.reached = n
		}
	}
	return true
}

// askLocked notes which queues the peer is to be asked about, if it is not being asked already.
func (ch *Channel) askLocked() bool {
	if !ch.unsure || ch.asked != nil {
		return false
	}
	ch.unsure, ch.asked = false, make(map[uint32]struct{})
	for _, slot := range ch.waiting.All() {
		if _, ok := ch.reaches[ch.works[slot].wr.Queue]; !ok && len(ch.asked) < maxItems-1 {
			ch.asked[ch.works[slot].wr.Queue] = struct{}{}
		}
	}
	return true
}

// ask asks the peer, and refuses what names queues that the domain does not have. The peer is asked
// about the target, too: if there is none, that is the end of the channel.
func (ch *Channel) ask(m *mux) {
	ch.mu.Lock()
	pairs := []objects.Pair{{Ours: ch.ref, Theirs: ch.target}}
	for n := range ch.asked {
		pairs = append(pairs, objects.Pair{Ours: ch.ref, Theirs: objects.Ref{Kind: objects.KindSRQ, Number: n}})
	}
	ch.mu.Unlock()
	a, err := m.control.ask(ch.t.ctx, func(id uint32) []byte {
		return (&record{kind: recordAsk, id: id, pairs: pairs}).appendTo(nil)
	})
	r, ok := a.(*record)
	if err == nil && !ok {
		m.end(errRecord)
	}
	var list []iwarp.Completion
	ch.mu.Lock()
	asked := ch.asked
	ch.asked, ch.unsure = nil, false // a request that still waits for an answer says so when it is looked at
	current := ch.state == channelReady && ch.mux == m
	if ok && current {
		missing := make(map[uint32]bool)
		for _, q := range r.refs {
			missing[q.Number] = true
			delete(asked, q.Number)
		}
		if ch.reaches == nil {
			ch.reaches = make(map[uint32]struct{})
		}
		for n := range asked {
			ch.reaches[n] = struct{}{}
		}
		list = ch.refuseLocked(missing)
	}
	ch.mu.Unlock()
	ch.attr.CQ.Push(list...)
	if ok || !current { // without an answer the connection ends, and its successor starts what waits
		ch.start()
	}
}

// refuseLocked refuses the requests that name missing queues, as the peer would. A message is refused
// with the Writes that it builds on.
func (ch *Channel) refuseLocked(missing map[uint32]bool) (list []iwarp.Completion) {
	all := ch.waiting.All()
	kept := 0
	for i := 0; i < len(all); {
		n := max(ch.works[all[i]].group, 1)
		group := all[i : i+n]
		i += n
		bad := false
		for _, slot := range group {
			bad = bad || missing[ch.works[slot].wr.Queue]
		}
		if !bad {
			kept += copy(all[kept:], group)
			continue
		}
		for _, slot := range group {
			status := iwarp.RemoteAccess
			if w := &ch.works[slot]; missing[w.queue] {
				status = iwarp.RemoteInvalidRD
			}
			list = ch.finishLocked(list, slot, status, 0)
		}
	}
	ch.waiting.Keep(kept)
	return list
}

// forgetLocked forgets queues that have ended; none: all, because the connection is lost.
func (ch *Channel) forgetLocked(numbers ...uint32) {
	ch.reached = 0
	for _, n := range numbers {
		delete(ch.reaches, n)
		delete(ch.asked, n)
	}
	if numbers == nil {
		clear(ch.reaches)
	}
}
