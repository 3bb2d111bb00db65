package xctl

import (
	"encoding/binary"

	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// receive is the receiver's reaction to a ULPDU.
func (w *world) receive(b []byte) {
	var s rdmap.Segment
	w.must(s.Parse(b, worldOps))
	route, err := RouteOf(s.Op, s.Untagged.QN)
	w.must(err)
	if route == RouteControl {
		w.must(CheckHeader(&s, &w.hears))
		w.hears.Advance(&s.Untagged, len(s.Payload))
		it := Iterate(s.Payload)
		for it.Next() {
			w.must(w.in.Resume(it.Resume()))
		}
		w.must(it.Err())
		return
	}
	n, _ := SRQOf(s.Untagged.QN)
	q := w.queues[n-1]
	r := w.in.Find(n)
	if r == nil && q.up {
		if r = w.in.Adopt(n, &s.Untagged); r != nil {
			w.adopts++
			q.entry = q.gen
		}
	}
	if r == nil {
		if nak, last := Unknown(n, &s.Untagged); last {
			w.unknowns++
			w.answer.NAK(nak)
		}
		return
	}
	w.place(q, r, &s)
}

func (w *world) place(q *worldQueue, r *Receiver, s *rdmap.Segment) {
	h := &s.Untagged
	a, err := r.Arrive(h)
	w.must(err)
	dead := !q.up || q.entry != q.gen
	if a != ArrivalDrop && len(s.Payload) == 0 {
		fail("the rest of a message that was not refused is missing")
	}
	switch a {
	case ArrivalFirst:
		q.open = binary.BigEndian.Uint64(s.Payload)
		switch {
		case dead:
			w.answer.NAK(r.Refuse(NAKUnknown, 0))
		case w.rng.IntN(40) == 0:
			w.refused++
			w.answer.NAK(r.Refuse(NAKForbidden, 0))
		case q.buffers > 0:
			q.buffers--
			r.Take()
		default:
			nak, err := r.NotReady()
			w.must(err)
			w.rnr++
			w.answer.NAK(nak)
			if w.sabotage == deliversOn {
				r.discard = false
			}
		}
	case ArrivalMore:
		if binary.BigEndian.Uint64(s.Payload) != q.open {
			fail("a segment of message %d within message %d", binary.BigEndian.Uint64(s.Payload), q.open)
		}
		code := NAKCode(0)
		if dead {
			code = NAKUnknown
		} else if w.rng.IntN(20) == 0 {
			code = NAKTooLong
		}
		if code != 0 {
			w.refused++
			w.answer.NAK(r.Refuse(code, 7))
			if !dead {
				q.buffers++
			}
		}
	}
	done := r.Advance(h, len(s.Payload))
	if w.sabotage == acksDiscarded && r.discard && h.Last {
		r.acked = h.MSN
	}
	if done {
		w.deliver(q, q.open)
	}
	if q.up && w.rng.IntN(2) == 0 {
		r.Grant(uint32(q.buffers))
	}
}

func (w *world) deliver(q *worldQueue, id uint64) {
	m := w.msgs[id]
	m.delivered++
	if w.queues[m.queue] != q {
		fail("message %d of queue %d comes out of %d", id, m.queue, q.srqn)
	}
	if m.delivered > 1 {
		fail("message %d is delivered again", id)
	}
	if id <= q.last {
		fail("message %d comes after %d", id, q.last)
	}
	q.last = id
}

// post gives a queue buffers.
func (w *world) post(q *worldQueue, n int) {
	q.buffers = min(q.buffers+n, 12)
	r := w.in.Find(q.srqn)
	if r == nil || r.gone {
		return
	}
	r.Grant(uint32(q.buffers))
}

// remove is when the connection hears of the end of a queue.
func (w *world) remove(q *worldQueue) {
	q.stale = false
	r := w.in.Find(q.srqn)
	if r == nil || r.gone {
		return
	}
	c, ok := w.in.Remove(q.srqn)
	if ok && w.sabotage != lastWordMissing {
		w.answer.Credit(c)
	}
	w.answer.SRQ(SRQ{q.srqn, SRQGone})
	if w.sabotage == forgetsDiscard && r.discard || w.sabotage == forgetsRefused && !r.discard {
		delete(w.in.queues, q.srqn)
	}
}

// credits is what the receiver does after a burst.
func (w *world) credits() {
	for _, q := range w.queues {
		if r := w.in.Find(q.srqn); r != nil && !r.gone {
			if q.up {
				r.Grant(uint32(q.buffers))
			}
			if c, due := r.Credit(w.now); due {
				w.answer.Credit(c)
			}
		}
	}
}
