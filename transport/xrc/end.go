package xrc

import (
	"context"

	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc/objects"
)

// complete takes the ends of requests from the connection m.
func (ch *Channel) complete(m *mux, ends []iwarp.Completion) {
	for i := range ends {
		if ends[i].Status == iwarp.ReceiverNotReady && i < len(ends)-1 { // the channel is dead before the next end is taken
			ch.complete(m, ends[:i+1])
			ch.complete(m, ends[i+1:])
			return
		}
	}
	var some [completeBatch]iwarp.Completion
	list := some[:0]
	var verify, again bool
	var failed error
	ch.mu.Lock()
	ch.giveLocked(m, ends)
	dead := ch.state == channelDead
	for i := range ends {
		c, slot := &ends[i], uint32(ends[i].ID)
		w := &ch.works[slot]
		ch.started--
		if answered(w.wr.Op) {
			ch.reads--
		}
		flushed := c.Status == iwarp.Flushed
		if !flushed {
			ch.signs++
		}
		switch {
		case w.state == workReported:
			w.state = workWaits
			ch.free = append(ch.free, slot)
		case dead && c.Status != iwarp.Success: // endLocked reports all in the order of posting
			w.state = workWaits
			ch.waitLocked(slot)
		case flushed && c.Sent:
			w.state, w.lost, w.serial = workDoubtful, m.id, c.Serial
		case flushed && !dead && w.queue != 0 && w.wr.Writes == 0:
			again = true
			w.state = workWaits
			ch.waitLocked(slot) // suspend brings it to its place
		case c.Status == iwarp.RemoteInvalidRD && !dead:
			w.state, w.vendor = workAsked, c.Vendor
			verify, ch.asks = verify || !ch.asks, true
		default:
			list = ch.finishLocked(list, slot, c.Status, c.Vendor)
			if c.Status == iwarp.ReceiverNotReady && !dead {
				failed, ch.onLoop = objects.ErrDry, true
			}
		}
	}
	list = ch.endLocked(list)
	hungry := ch.state == channelReady && ch.mux == m && ch.waiting.Len() > 0 && !again
	empty, drained := dead && ch.started == 0, ch.held && ch.started == 0
	ch.mu.Unlock()
	ch.attr.CQ.Push(list...)
	if failed != nil {
		ch.ini.Fail(objects.EventLastWQE, failed)
	}
	if verify {
		ch.t.work.Go(func() { ch.verify(m) })
	}
	if drained {
		ch.ini.Drained()
	}
	if hungry {
		m.starve(ch) // feed follows when the completions that have come with these are through
	}
	if empty {
		ch.t.beside(ch.remove) // which may ask the node, and no event loop waits for that
	}
}

// completeBatch is how many completions of a link are taken at a time.
const completeBatch = 64

// giveLocked gives back the places that requests had on the connection m.
func (ch *Channel) giveLocked(m *mux, ends []iwarp.Completion) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := 0; i < len(ends); {
		queue, n := ch.works[uint32(ends[i].ID)].queue, 0
		for ; i < len(ends) && ch.works[uint32(ends[i].ID)].queue == queue; i++ {
			n++
			if ends[i].Status == iwarp.Flushed && ch.state != channelDead { // of a dead channel it need not be the connection that ended
				m.over = true // what was flushed is not posted here again
			}
		}
		m.giveLocked(queue, n)
	}
}

// finishLocked frees a request and adds its completion to list, if it has one.
func (ch *Channel) finishLocked(list []iwarp.Completion, slot uint32, status iwarp.Status, vendor uint32) []iwarp.Completion {
	list = ch.reportLocked(list, slot, status, vendor)
	ch.works[slot].state = workWaits
	ch.free = append(ch.free, slot)
	return list
}

func (ch *Channel) reportLocked(list []iwarp.Completion, slot uint32, status iwarp.Status, vendor uint32) []iwarp.Completion {
	w := &ch.works[slot]
	if status == iwarp.Flushed && ch.reason != iwarp.Success {
		status, ch.reason = ch.reason, iwarp.Success
	}
	if !ch.destroyed && (status != iwarp.Success || w.wr.Flags&iwarp.Signaled != 0) {
		list = append(list, iwarp.Completion{ID: w.wr.ID, Initiator: ch.ref.Number, Op: w.wr.Op, Status: status, Vendor: vendor, Queue: w.queue})
	}
	return list
}

// die is the end of the channel. What waits is flushed when the connection is done with what it
// has: the first of all with the reason, if the peer is one. From a peer that does not answer
// nothing is waited for but the memory of reads and atomics, to which an answer may yet come.
func (ch *Channel) die(cause error) {
	ch.mu.Lock()
	if ch.state == channelDead {
		ch.mu.Unlock()
		return
	}
	m := ch.mux
	ch.state, ch.why, ch.mux, ch.held = channelDead, cause, nil, false
	switch cause {
	case objects.ErrPeerGone, objects.ErrIncarnation, objects.ErrGrace, objects.ErrRetry:
		ch.reason = iwarp.RetryExceeded
	case objects.ErrReset: // discards what is posted without a completion
		ch.destroyed = true
	}
	for slot := range ch.works {
		switch w := &ch.works[slot]; {
		case w.state == workDoubtful, w.state == workAsked:
			w.state = workWaits
			ch.waitLocked(uint32(slot))
		case w.state == workStarted && cause == objects.ErrRetry && !answered(w.wr.Op):
			w.state = workReported
			ch.waitLocked(uint32(slot))
		}
	}
	list := ch.endLocked(nil)
	index, empty, onLoop := uint64(ch.index), ch.started == 0, ch.onLoop
	close(ch.dead)
	ch.stop()
	ch.mu.Unlock()
	ch.attr.CQ.Push(list...)
	if ch.p == nil {
		return
	}
	if empty && onLoop {
		ch.t.beside(ch.remove)
	} else if empty {
		ch.remove()
	} else if m != nil {
		m.l.qp.Abandon(func(id uint64) bool { return id>>32 == index })
	}
}

// endLocked adds to list the completions of all that waits, if the channel is dead and the
// connection is done with the rest.
func (ch *Channel) endLocked(list []iwarp.Completion) []iwarp.Completion {
	if ch.state != channelDead || ch.started > 0 && ch.why != objects.ErrRetry {
		return list
	}
	ch.sortLocked()
	for _, slot := range ch.waiting.All() {
		if ch.works[slot].state == workReported {
			list = ch.reportLocked(list, slot, iwarp.Flushed, 0)
		} else {
			list = ch.finishLocked(list, slot, iwarp.Flushed, 0)
		}
	}
	ch.waiting.Keep(0)
	return list
}

// remove forgets a dead channel that nothing is under way of.
func (ch *Channel) remove() {
	ch.p.mu.Lock()
	if ch.p.channels[ch.index] == ch {
		delete(ch.p.channels, ch.index)
	}
	ch.p.mu.Unlock()
	ch.p.want()
}

// destroy is the end of the initiator: nobody wants completions any more.
func (ch *Channel) destroy() {
	ch.mu.Lock()
	ch.destroyed = true
	ref := ch.ref
	ch.mu.Unlock()
	ch.die(objects.ErrDestroyed)
	if ch.p != nil {
		ch.p.announce(ref) // announced also if the channel was never connected, or is suspended
	}
}

// verify finds out why the peer has refused messages for want of their queue: if it has no
// target for the channel any more that is the end of the channel, else the messages fail. The
// peer's word that the target is gone may be behind the refusal.
func (ch *Channel) verify(m *mux) {
	for {
		var slots []uint32
		ch.mu.Lock()
		for slot := range ch.works {
			if ch.works[slot].state == workAsked {
				slots = append(slots, uint32(slot))
			}
		}
		ch.asks = len(slots) > 0
		pair := objects.Pair{Ours: ch.ref, Theirs: ch.target}
		ch.mu.Unlock()
		if len(slots) == 0 {
			return
		}
		_, _ = m.control.ask(context.Background(), func(id uint32) []byte { // which the end of the connection ends
			return (&record{kind: recordAsk, id: id, pairs: []objects.Pair{pair}}).appendTo(nil)
		})
		var list []iwarp.Completion
		ch.mu.Lock()
		for _, slot := range slots {
			if w := &ch.works[slot]; w.state == workAsked { // in another state the channel has ended
				list = ch.finishLocked(list, slot, iwarp.RemoteInvalidRD, w.vendor)
			}
		}
		ch.mu.Unlock()
		ch.attr.CQ.Push(list...)
	}
}
