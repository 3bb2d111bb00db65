package iwarp

import (
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// refused is the failure that a Terminate of ours tells the peer.
func (s *stream) refused(t rdmap.Terminate, fault mr.Fault) failure {
	if fault != mr.None {
		s.dev.stats.badKeys.Add(1)
		s.dev.event(Event{Kind: EventQPAccess, QP: s.q, Cause: t.Cause})
	}
	return failure{
		err:       &TerminateError{Cause: t.Cause},
		status:    Flushed,
		vendor:    uint32(t.Cause),
		terminate: t.AppendTo(rdmap.TerminateHeader().AppendTo(nil)),
	}
}

// refusal is the failure for a segment whose header, at least, is at hand.
func (r *receiver) refusal(cause rdmap.Cause, segment []byte, length int) failure {
	t := rdmap.NewTerminate(cause, segment)
	if t.HasLen {
		t.SegmentLen = uint16(length)
	}
	return r.s.refused(t, mr.None)
}

// refuse ends the stream because of the segment at hand, of which ulpdu is all.
func (r *receiver) refuse(cause rdmap.Cause, ulpdu []byte) {
	r.refuseULPDU(cause, ulpdu, len(ulpdu))
}

// refuseSink is the same for the segment of the sink.
func (r *receiver) refuseSink(cause rdmap.Cause) {
	k := &r.sink
	r.refuseULPDU(cause, k.header[:k.hlen], k.hlen+k.n)
}

func (r *receiver) refuseULPDU(cause rdmap.Cause, segment []byte, length int) {
	f := r.refusal(cause, segment, length)
	if cause == rdmap.CauseMPACRC {
		r.s.dev.stats.crcErrors.Add(1)
	}
	r.s.dev.event(Event{Kind: EventQPRequest, QP: r.s.q, Cause: cause})
	r.stop(f)
}

// refuseAccess ends the stream because the peer may not do what it asked for.
func (r *receiver) refuseAccess(cause rdmap.Cause, segment []byte, fault mr.Fault) {
	r.stop(r.s.refused(rdmap.NewTerminate(cause, segment), fault))
}

// fault ends the stream because memory of the sink is not there: the peer's
// mistake if it named it, else the program's. In a message to a shared queue it
// costs that message alone, and the connection goes on: it returns true.
func (r *receiver) fault(fault mr.Fault) bool {
	k := &r.sink
	if k.srq != nil {
		return r.faultShared(fault)
	}
	if k.op == rdmap.OpWrite && r.s.softWrites() {
		return r.refuseWrite(fault)
	}
	if k.op == rdmap.OpWrite {
		t := rdmap.NewTerminate(taggedCause(fault), k.header[:k.hlen])
		t.SegmentLen = uint16(k.hlen + k.n)
		r.stop(r.s.refused(t, fault))
		return false
	}
	f := r.refusal(rdmap.CauseCatastrophic, nil, 0)
	f.err, f.status, f.vendor = fault, LocalProtection, uint32(fault)
	if k.op == rdmap.OpReadResponse {
		_, index := r.awaited()
		f.culprit, f.slot = true, *index
	} else {
		f.receive = true
	}
	r.stop(f)
	return false
}

// badResponse ends the stream because a Read Response does not fit the read.
func (r *receiver) badResponse(cause rdmap.Cause, slot uint32) {
	k := &r.sink
	f := r.refusal(cause, k.header[:k.hlen], k.hlen+k.n)
	f.culprit, f.slot, f.status = true, slot, BadResponse
	r.stop(f)
}

// stop ends the receiver and the queue pair. It runs on the event loop.
func (r *receiver) stop(f failure) {
	r.dead = true
	r.s.q.fail(f)
	r.s.endReceiving()
}

// refuseParsed ends the stream because of a segment whose header is wrong; op is
// its operation as far as that is known.
func (r *receiver) refuseParsed(op rdmap.Op, err error, segment []byte, length int) {
	if op == rdmap.OpTerminate {
		r.quit(err) // A malformed Terminate: there is no request to blame it on.
		return
	}
	r.refuseULPDU(rdmap.CauseOf(err), segment, length)
}

// quit ends the stream without a word: a Terminate is not answered by another,
// even if it is no good.
func (r *receiver) quit(err error) {
	r.stop(failure{err: err, status: Flushed, quiet: true})
}

// terminated takes the peer's Terminate: the work request that it is about gets
// the status, all others are flushed (RFC 5040 section 4.8).
func (r *receiver) terminated(body []byte) {
	k := &r.sink
	if err := r.terminates.Check(&k.untagged); err != nil {
		r.quit(err)
		return
	}
	s := r.s
	s.dev.stats.terminatesGot.Add(1)
	var t rdmap.Terminate
	// A short one tells its cause all the same, if anything.
	_ = t.Decode(body, rdmap.Hints{Sent: s.spoke.Load(), First: s.ln != nil && r.opening})
	f := failure{
		err:    &TerminateError{Cause: t.Cause, Remote: true, SIW: t.SIW},
		status: statusOf(t.Cause),
		vendor: uint32(t.Cause),
		quiet:  true,
	}
	f.slot, f.culprit = s.accused(&t)
	s.dev.event(Event{Kind: EventQPFatal, QP: s.q, Cause: t.Cause})
	r.stop(f)
}

// inquiry finds the Read or atomic that has gone out with a sequence number and was not
// answered. Those before it may have been executed, though their answers are lost.
func (s *stream) inquiry(msn uint32) (slot uint32, ok bool) {
	t, answered := &s.tx, s.rx.answered.Load()
	ahead := uint64(msn - 1 - uint32(answered))
	if len(t.orq) == 0 || ahead >= t.asked.Load()-answered {
		return 0, false
	}
	slot = t.orq[(answered+ahead)%uint64(len(t.orq))]
	return slot, slot != rtrSlot
}

// accused finds the work request that a Terminate is about, if it has not
// completed: a Send or Write has when TCP has it, which is mostly sooner.
func (s *stream) accused(t *rdmap.Terminate) (slot uint32, ok bool) {
	var h ddp.Untagged
	untagged := t.HasDDP && !ddp.IsTagged(t.DDP[0]) && h.Decode(t.DDP) == nil
	if untagged && h.QN == rdmap.QueueRequest {
		if slot, ok := s.inquiry(h.MSN); ok {
			return slot, true
		}
		// Linux's siw gives another number. It is about the oldest one then, unless that
		// is an atomic among others, which may have been executed.
		w, index := s.rx.awaited()
		if w != nil && (w.op == OpRead || s.tx.asked.Load()-s.rx.answered.Load() == 1) {
			return *index, true
		}
		return 0, false
	}
	if t.HasRead || t.Cause.Layer() == rdmap.LayerRDMAP && t.Cause.Type() == 1 {
		if _, index := s.rx.awaited(); index != nil && *index != rtrSlot {
			return *index, true
		}
		return 0, false
	}
	q := s.q
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := q.head; i != q.tail; i++ {
		w := s.slot(i)
		if untagged && h.QN == rdmap.QueueSend && !w.answered() && w.op != OpWrite || t.HasDDP && !untagged && w.op == OpWrite {
			return i, true
		}
	}
	return 0, false
}

// statusOf translates what the peer says of a request of ours.
func statusOf(c rdmap.Cause) Status {
	switch c {
	case rdmap.CauseDDPNoBuffer:
		return ReceiverNotReady
	case rdmap.CauseDDPTooLong, rdmap.CauseStreamCatastrophic, rdmap.CauseOpcode, rdmap.CauseVersion:
		return RemoteInvalid
	case rdmap.CauseCatastrophic, rdmap.CauseGlobalCatastrophic:
		return RemoteOperation
	}
	switch {
	case c.Layer() == rdmap.LayerRDMAP && c.Type() == 1, c.Layer() == rdmap.LayerDDP && c.Type() == 1,
		c == rdmap.CauseInvalidation:
		return RemoteAccess
	case c.Layer() == rdmap.LayerMPA:
		return GeneralError
	}
	return RemoteInvalid
}
