package iwarp

import (
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
	s.tx.batch.add(xctl.ReadError{MSN: a.msn, Cause: cause, Placed: placed}.AppendTo(u))
	s.tx.served()
}

// readFailed takes the answer to a Read or Atomic of ours that was refused.
func (r *receiver) readFailed(e xctl.ReadError) bool {
	slot, index := r.awaited()
	if index == nil || *index == rtrSlot || e.MSN != uint32(r.answered.Load())+1 {
		return false
	}
	slot.status, slot.vendor = statusOf(e.Cause), uint32(e.Cause)
	r.responses = ddp.Run{} // what came of it before is all
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
		}
		x.written++
	}
	s.q.completeLocked()
	return nil
}
