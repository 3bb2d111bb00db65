package iwarp

import (
	"slices"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// On a connection with shared receive queues a bad key costs its own operation.
// A Read or Atomic that is refused is answered by an error in its turn. Writes are
// counted on both sides; one that is refused is dropped and reported, and a message
// that builds on it is refused too. A Write completes when the peer has placed it.

func (s *stream) softReads() bool {
	return s.shared != nil && s.shared.agreed.Caps.Has(xctl.CapSoftRead)
}

func (s *stream) softWrites() bool {
	return s.shared != nil && s.shared.agreed.Caps.Has(xctl.CapSoftWrite)
}

// refuseInquiry has a Read or Atomic answered by an error. It returns false if the
// connection ends instead.
func (r *receiver) refuseInquiry(a *inquiry, fault mr.Fault, ulpdu []byte) bool {
	a.cause = protectionCause(fault)
	if !r.s.softReads() {
		r.refuseAccess(a.cause, ulpdu, fault)
		return false
	}
	return r.denied(a.cause, func(*xctl.Backlog) bool { return true })
}

// denied counts an access that is refused, and says so.
func (r *receiver) denied(cause rdmap.Cause, say func(*xctl.Backlog) bool) bool {
	r.s.dev.stats.badKeys.Add(1)
	r.s.dev.event(Event{Kind: EventQPAccess, QP: r.s.q, Cause: cause})
	return r.softError(say)
}

// readError answers the inquiry being served with an error; placed octets of its
// response have gone before. It goes out here and now, because responses are told
// apart by their order.
func (s *stream) readError(a *inquiry, placed uint32, cause rdmap.Cause) {
	u := s.shared.controlHeader()
	s.tx.batch.add(xctl.AppendTo(u, xctl.ReadError{MSN: a.msn, Cause: cause, Placed: placed}))
	s.served(false)
}

// readFailed takes the answer to a Read or Atomic of ours that was refused.
func (r *receiver) readFailed(e xctl.ReadError) bool {
	slot, index := r.awaited()
	if index == nil || *index == rtrSlot || e.MSN != uint32(r.answered.Load())+1 {
		return false
	}
	slot.status, slot.vendor = statusOf(e.Cause), uint32(e.Cause)
	r.responses = ddp.Run{} // no more of the response comes than has come before
	r.answer()
	return true
}

// refuseWrite drops the Write at hand.
func (r *receiver) refuseWrite(fault mr.Fault) bool {
	x, k := r.s.shared, &r.sink
	k.drop, x.badWrite = true, true
	e := xctl.WriteError{Ordinal: x.placed.Next(), STag: k.tagged.STag, TO: k.tagged.TO, Cause: taggedCause(fault)}
	return r.denied(e.Cause, func(b *xctl.Backlog) bool { return b.WriteError(e) })
}

// endWrite counts a Write whose end has come.
func (x *shared) endWrite() {
	x.placed.Done(!x.badWrite)
	x.badWrite, x.wrote = false, true
}

// beginWrite counts a Write of ours.
func (x *shared) beginWrite(w *sendSlot, index uint32) {
	w.index = x.begun
	x.taken++
	x.countWrite(index)
}

func (x *shared) countWrite(index uint32) {
	x.begun++
	x.lastWrite = x.writes.Begin(uint64(index))
}

// firstOf is the ordinal of the first of the last n Writes. 0 is no ordinal.
func (x *shared) firstOf(n uint32) uint32 {
	first := x.lastWrite - (n - 1)
	if first == 0 || first > x.lastWrite {
		first--
	}
	return first
}

// dependency is the ordinal that a message names when it begins now: that of the
// first Write it builds on. The peer then refuses the message if that one or any
// later one has failed, so it is named only while no others have followed, or if
// one of the message's own has failed. Where others have, the message waits until
// the fate of its own is known (not ok).
func (x *shared) dependency(m *outMessage) (dep uint32, ok bool) {
	switch {
	case m.slot.deps == 0:
		return 0, true
	case x.begun == m.to:
		return m.slot.deps, true
	case x.written < m.to:
		return 0, false
	}
	for _, n := range x.failed {
		if n >= m.from && n < m.to {
			return m.slot.deps, true
		}
	}
	return 0, true
}

// noteFailed remembers that the Write numbered written has failed, as long as a
// message builds on it or an earlier one.
func (x *shared) noteFailed() {
	if len(x.failed) == cap(x.failed) {
		oldest := x.begun
		for i := range x.msgs {
			if m := &x.msgs[i]; m.slot.deps != 0 {
				oldest = min(oldest, m.from)
			}
		}
		x.failed = slices.DeleteFunc(x.failed, func(n uint64) bool { return n < oldest })
	}
	x.failed = append(x.failed, x.written)
}

// wroteLocked takes what the peer says of our Writes, and completes them.
func (x *shared) wroteLocked(s *stream, r *arrivedRecord) error {
	var err error
	if r.kind == xctl.TypeWriteAck {
		err = x.writes.Ack(r.writeAck)
	} else {
		err = x.writes.Error(r.writeErr)
	}
	if err != nil {
		return err
	}
	for o, ok := x.writes.Pop(); ok; o, ok = x.writes.Pop() {
		if !o.OK && uint32(o.ID) != rtrSlot {
			w := s.slot(uint32(o.ID))
			w.status, w.vendor = RemoteAccess, uint32(o.Cause)
			x.noteFailed()
		}
		x.written++
	}
	s.q.completeLocked()
	return nil
}
