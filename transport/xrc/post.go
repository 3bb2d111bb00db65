package xrc

import (
	"errors"
	"fmt"

	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc/objects"
)

// work is a request from PostSend to its completion. It keeps what has to be sent
// again after a connection was lost; the memory is the caller's all that time.
type work struct {
	wr     iwarp.WorkRequest
	queue  uint32 // queue that a message goes to, 0 for what is no message
	sge    [iwarp.MaxSGE]iwarp.SGE
	inline []byte
	order  uint64 // position in the order of posting
	group  int    // in the first Write that a message builds on: the number of such Writes and the message

	state  workState
	vendor uint32 // workAsked: more about the refusal
	lost   uint64 // workDoubtful: number of the lost connection
	serial uint32 // workDoubtful: serial number of the message on the lost connection
}

// workState is where a request is.
type workState uint8

const (
	workWaits    workState = iota // in Channel.waiting, or nowhere
	workStarted                   // with the connection
	workDoubtful                  // was with a connection that was lost, and the peer knows whether it has come
	workAsked                     // refused for want of its queue, and the peer is asked whether the target is there: see verify
	workReported                  // with the connection, and completed: the channel is dead
)

// startAtOnce is how many requests go to the connection in one call.
const startAtOnce = 64

// PostSend posts requests in order and returns how many it took; the error is
// about the first that it did not take. All name the peer's queue (WorkRequest.Queue): the
// one that a message goes to, or whose protection domain the key of a Write, read or atomic
// is of. A message that builds on Writes is posted in one call with
// them, and right behind them.
//
// While the connection is lost requests are kept. Of those that were under way
// then, messages complete as if nothing had happened, each delivered once; Writes,
// reads, atomics and messages that build on Writes complete as Flushed: they may
// have happened, in part, or not at all. When the channel is dead all do.
func (ch *Channel) PostSend(list ...iwarp.WorkRequest) (n int, err error) {
	if err := ch.ini.CheckPost(); err != nil {
		return 0, err
	}
	ch.mu.Lock()
	if ch.destroyed {
		ch.mu.Unlock()
		return 0, ErrClosed
	}
	for n < len(list) {
		var whole int // a group is taken as one
		whole, err = ch.checkGroup(list[n:])
		if err != nil {
			break
		}
		if len(ch.free) < whole {
			err = ErrFull
			break
		}
		for i := range whole {
			slot := ch.keep(&list[n+i])
			if i == 0 {
				ch.works[slot].group = whole
			}
		}
		n += whole
	}
	flushed := ch.endLocked(nil)
	run := ch.state == channelReady && ch.kickLocked()
	ch.mu.Unlock()
	ch.attr.CQ.Push(flushed...)
	if run {
		ch.run()
	}
	return n, err
}

// keep copies a request into a free slot.
func (ch *Channel) keep(wr *iwarp.WorkRequest) uint32 {
	slot := ch.free[len(ch.free)-1]
	ch.free = ch.free[:len(ch.free)-1]
	w := &ch.works[slot]
	w.wr, w.queue = *wr, 0
	if !wr.Op.Tagged() {
		w.queue = wr.Queue
	}
	w.wr.SGE = append(w.sge[:0], wr.SGE...)
	w.inline = append(w.inline[:0], wr.Inline...)
	w.wr.Inline = w.inline
	ch.posted++
	w.order, w.group, w.state = ch.posted, 1, workWaits
	ch.waitLocked(slot)
	return slot
}

// waitLocked adds a request to waiting, behind all others.
func (ch *Channel) waitLocked(slot uint32) {
	ch.soleLocked(slot)
	ch.waiting.Push(slot)
}

// waitFirstLocked puts requests back in waiting that were taken from its beginning.
func (ch *Channel) waitFirstLocked(slots []uint32) {
	if len(slots) == 0 {
		return
	}
	ch.soleLocked(slots...)
	ch.waiting.PushFront(slots...)
	if all := ch.waiting.All(); len(all) > len(slots) && ch.works[all[len(slots)-1]].order > ch.works[all[len(slots)]].order {
		ch.sortLocked() // the first of those that stayed had been passed over
	}
}

// soleLocked notes requests that are to wait in sole.
func (ch *Channel) soleLocked(slots ...uint32) {
	for i, slot := range slots {
		switch queue := ch.works[slot].queue; {
		case i == 0 && ch.waiting.Len() == 0:
			ch.sole = queue
		case ch.sole != queue:
			ch.sole = 0
		}
	}
}

// checkGroup refuses what no channel could do. It returns how many requests at the
// beginning of list belong together.
func (ch *Channel) checkGroup(list []iwarp.WorkRequest) (n int, err error) {
	n = 1
	for i := range list {
		w := &list[i]
		if w.Writes > 0 {
			if int(w.Writes) != i {
				break
			}
			n = i + 1
			break
		}
		if w.Op != iwarp.OpWrite || i >= MaxGroup {
			break
		}
	}
	if list[0].Writes > 0 {
		return 0, fmt.Errorf("%w: message without the Writes that it builds on", ErrRequest)
	}
	for i := range n {
		if err := ch.check(&list[i]); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// MaxGroup is how many Writes one message builds on at most.
const MaxGroup = 16

// requestError is an ErrRequest that names the field which is wrong.
func requestError(field string, value any) error {
	return fmt.Errorf("%w: WorkRequest.%s: %v", ErrRequest, field, value)
}

func (ch *Channel) check(w *iwarp.WorkRequest) error {
	var total uint64
	for i := range w.SGE {
		total += uint64(w.SGE[i].Len)
		if !ch.attr.PD.Owns(w.SGE[i].Key) {
			return iwarp.ErrForeign
		}
	}
	inline, atomic := len(w.Inline) > 0, w.Op == iwarp.OpFetchAdd || w.Op == iwarp.OpCompareSwap
	switch {
	case w.Op > iwarp.OpImmediate:
		return requestError("Op", w.Op)
	case w.Queue == 0, w.Queue == controlQueue, objects.HasSink(w.Queue), w.Queue > maxSRQN: // RDS alone sends to its own
		return requestError("Queue", w.Queue)
	case len(w.SGE) > iwarp.MaxSGE, w.Op == iwarp.OpRead && len(w.SGE) > 1, w.Op == iwarp.OpImmediate && len(w.SGE) > 0,
		atomic && (len(w.SGE) != 1 || total != 8), total >= 1<<32:
		return requestError("SGE", w.SGE)
	case inline && (len(w.SGE) > 0 || w.Op > iwarp.OpWrite || len(w.Inline) > ch.t.opts.MaxInline):
		return requestError("Inline", len(w.Inline))
	case atomic && w.RemoteAddr%8 != 0, w.Op.Tagged() && w.RemoteAddr > iwarp.MaxNamed-max(total, uint64(len(w.Inline))):
		return requestError("RemoteAddr", w.RemoteAddr)
	case w.Writes > 0 && w.Op != iwarp.OpSend:
		return requestError("Writes", w.Writes)
	}
	return nil
}

// kickLocked asks for requests to be started. If it returns true the caller calls
// run when it has unlocked.
func (ch *Channel) kickLocked() bool {
	if ch.starting {
		ch.again = true
		return false
	}
	ch.starting = ch.waiting.Len() > 0
	return ch.starting
}

// start is for a channel that may have found no room on the connection.
func (ch *Channel) start() {
	ch.mu.Lock()
	run := ch.state == channelReady && ch.kickLocked()
	ch.mu.Unlock()
	if run {
		ch.run()
	}
}

// run gives waiting requests to the connection, one caller at a time, until none
// is left, or none can start.
func (ch *Channel) run() {
	for {
		var refused []iwarp.Completion
		var forbidden, watch, ask bool
		ch.mu.Lock()
		ch.again = false
		m := ch.mux
		ch.batch, ch.slots = ch.batch[:0], ch.slots[:0]
		if ch.state == channelReady && !ch.held {
			refused, forbidden = ch.pickLocked(m)
			ask = ch.askLocked()
		}
		if len(ch.batch) > 0 && !ch.watched && ch.attrs.Timeout > 0 {
			ch.watched, watch = true, true
		}
		stop := len(ch.batch) == 0 && !ch.again
		ch.starting = !stop
		ch.mu.Unlock()
		ch.attr.CQ.Push(refused...)
		if watch {
			ch.t.watch(ch)
		}
		if ask {
			ch.t.work.Go(func() { ch.ask(m) })
		}
		if forbidden {
			ch.ini.Fail(objects.EventLastWQE, objects.ErrForbidden) // and bearer.Close accuses it
		}
		if stop {
			return
		}
		if len(ch.batch) == 0 {
			continue
		}
		done, err := m.l.qp.PostLeaving(m.t.opts.Operations-m.l.ops.outstanding()+controlSends, ch.batch...)
		m.posted()
		if done == len(ch.batch) {
			continue
		}
		ending, full := errors.Is(err, iwarp.ErrState), err == iwarp.ErrQueueFull
		ch.mu.Lock()
		list := ch.putBackLocked(m, ch.slots[done:], ending || full)
		stop = ending && ch.mux == m || full && m.starves(ch) // sending stops until there is another connection, or room
		ch.starting = !stop
		ch.mu.Unlock()
		ch.attr.CQ.Push(list...)
		if !full { // with a full queue the places given back are no room for others, who hear when there are places
			m.feed()
		}
		if stop {
			return
		}
	}
}

// pickLocked makes a batch of the requests that may start now. Those to a queue that
// has its share of the connection wait, and let those to others pass. A request that the
// target does not allow is refused as the target would, when all before it have
// completed: it is the end of both queue pairs.
func (ch *Channel) pickLocked(m *mux) (refused []iwarp.Completion, forbidden bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over {
		return nil, false
	}
	all := ch.waiting.All()
	kept, i := 0, 0
	passed := false
	for i < len(all) && len(ch.batch) < startAtOnce {
		w := &ch.works[all[i]]
		n := max(w.group, 1)
		queue := ch.works[all[i+n-1]].queue
		reads := answered(w.wr.Op)
		if !ch.limits.allow(w.wr.Op, ch.depth) {
			if forbidden = ch.started+kept == 0; forbidden {
				refused = ch.finishLocked(refused, all[i], iwarp.RemoteInvalid, 0)
				i++
			}
			break
		}
		switch {
		case reads && ch.reads == ch.depth, !ch.reachesLocked(all[i : i+n]), n > m.room:
			// What comes behind has to wait, too.
		case ch.sole != 0 && queue == ch.sole && !m.mayTakeLocked(queue, n):
			passed = true // what comes behind is for the same queue
		case queue != 0 && !m.mayTakeLocked(queue, n): // a request behind this one for the same queue has no more room
			passed = true
			kept += copy(all[kept:], all[i:i+n])
			i += n
			continue
		default:
			m.takeLocked(queue, n)
			for _, slot := range all[i : i+n] {
				ch.batchLocked(slot)
			}
			i += n
			continue
		}
		if n > m.room {
			m.starveLocked(ch)
		}
		break
	}
	if passed {
		m.starveLocked(ch)
	}
	if kept == 0 {
		ch.waiting.Drop(i)
	} else {
		ch.waiting.Keep(kept + copy(all[kept:], all[i:]))
	}
	if len(ch.batch) > 0 {
		m.posting.Add(1)
	}
	return refused, forbidden
}

// answered tells whether an operation has an answer.
func answered(op iwarp.Op) bool {
	return op == iwarp.OpRead || op == iwarp.OpFetchAdd || op == iwarp.OpCompareSwap
}

// batchLocked adds a request to the batch.
func (ch *Channel) batchLocked(slot uint32) {
	w := &ch.works[slot]
	if answered(w.wr.Op) {
		ch.reads++
	}
	ch.started++
	w.state = workStarted
	wr := w.wr
	wr.Again = ch.limits.wait()
	if tries := ch.attrs.RNRRetry; tries < forEver {
		wr.Offers = tries + 1
	}
	wr.QP = ch.target.Number
	wr.Segment = uint32(ch.attrs.PathMTU)
	wr.ID = uint64(ch.index)<<32 | uint64(slot)
	ch.batch, ch.slots = append(ch.batch, wr), append(ch.slots, slot)
}

// forEver is an RNR retry count without end.
const forEver = 7

// putBackLocked has requests wait again that the connection did not take. If that
// is not because it ends, or is full, the first one is at fault.
func (ch *Channel) putBackLocked(m *mux, slots []uint32, good bool) (list []iwarp.Completion) {
	m.mu.Lock()
	for _, slot := range slots {
		m.giveLocked(ch.works[slot].queue, 1)
	}
	m.mu.Unlock()
	for _, slot := range slots {
		ch.started--
		if answered(ch.works[slot].wr.Op) {
			ch.reads--
		}
		ch.works[slot].state = workWaits
	}
	if !good {
		list = ch.finishLocked(list, slots[0], iwarp.LocalQPError, 0)
		slots = slots[1:]
	}
	ch.waitFirstLocked(slots)
	return ch.endLocked(list)
}
