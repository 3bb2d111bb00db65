package iwarp

import (
	"time"

	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// A queue without receives refuses what it is offered. Each message may say how often it is
// offered; one that is offered no more, or that its program gives up, is taken back from those
// that wait, and the others go on as if it had not been there.

// dryLocked follows a refusal for want of a receive.
func (x *shared) dryLocked(qp *QP, q *outQueue, now time.Time) {
	if id, ok := q.Refused(); ok {
		q.Delay(now.Add(x.msgs[id].slot.again))
	}
	x.dropLocked(qp, q, func(m *outMessage) {
		if m.slot.offers == 0 || now.Before(m.counts) {
			return
		}
		m.counts = now.Add(m.slot.again)
		if m.refused++; m.refused >= m.slot.offers {
			m.slot.status, m.slot.vendor = ReceiverNotReady, uint32(xctl.NAKNotReady)
		}
	})
}

// Abandon completes as Flushed those messages to shared queues that wait to be sent, or to be
// sent again, and whose work request's ID gone tells of: gone must not block. What the peer has
// got, or is being sent, completes by what becomes of it there.
func (q *QP) Abandon(gone func(id uint64) bool) {
	q.mu.Lock()
	s := q.stream
	run := false
	if s != nil && s.shared != nil && !q.over {
		s.shared.given = append(s.shared.given, gone)
		run = s.kickLocked()
	}
	q.mu.Unlock()
	if run {
		s.transmit()
	}
}

// abandonLocked does what Abandon has asked for.
func (x *shared) abandonLocked(s *stream) {
	for _, gone := range x.given {
		for i := range x.msgs { // also those that the peer has: if it refuses one it is not sent again
			if w := &x.msgs[i].slot; w.status == Success && gone(w.id) {
				w.status = Flushed
			}
		}
		for i := s.tx.next; i != s.q.tail; i++ { // requests that have not had their turn in the send queue
			if w := &s.q.slots[i&uint32(len(s.q.slots)-1)]; w.queue != 0 && gone(w.id) {
				w.status = Flushed
			}
		}
		for _, q := range x.out {
			x.dropLocked(s.q, q, func(*outMessage) {})
		}
	}
	clear(x.given)
	x.given = x.given[:0]
}

// dropLocked takes those messages back that wait for q, or wait to be sent to it again, and that
// are offered no more, or given up, when judge has looked at them.
func (x *shared) dropLocked(qp *QP, q *outQueue, judge func(m *outMessage)) {
	comps := qp.comps[:0]
	drop := func(id uint32) bool {
		m := &x.msgs[id]
		if judge(m); m.slot.status != Flushed && m.slot.status != ReceiverNotReady {
			return false
		}
		comps = x.doneLocked(qp, comps, id, m.slot.status, m.slot.vendor)
		return true
	}
	q.Drop(func(id uint64) bool { return drop(uint32(id)) })
	kept, all := 0, q.waiting.All()
	for _, id := range all {
		if !drop(id) {
			all[kept] = id
			kept++
		}
	}
	q.waiting.Keep(kept)
	qp.comps = comps
	qp.pushSends(comps)
}
