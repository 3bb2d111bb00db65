package iwarp

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

var errEnded = errors.New("iwarp: the stream has ended")

// sink is where the payload of the segment at hand goes.
type sink struct {
	op     rdmap.Op
	last   bool
	n      int    // payload of the whole segment
	offset uint64 // offset of the next byte, in the posted memory or from addr
	key    mr.Key // region of a Write or a Read Response
	domain *mr.Domain
	addr   uint64
	drop   bool // nobody gets the bytes: they answer an empty read, or are of a refused message

	to        *xctl.Receiver // receiver of a message to a shared queue
	srq       *SRQ           // the shared queue that takes the message
	shared    bool
	sunk      bool // the segment is of a message to a queue with a sink
	feed      Sink // takes the payload: the message is for a queue with a sink; nil: memory does
	immediate uint64

	tagged   ddp.Tagged
	untagged ddp.Untagged
	header   [ddp.UntaggedLen]byte // header of the segment, for a Terminate
	hlen     int
}

func (k *sink) moved(n int) { k.offset += uint64(n) }

// begin checks a segment and opens its sink. n is the length of its payload,
// which seg may not hold yet. It returns false if there is nothing to place:
// the segment was refused, or was taken whole.
func (r *receiver) begin(seg *rdmap.Segment, ulpdu []byte, n int) bool {
	if r.opening = !r.s.heard.Load(); r.opening {
		r.first()
	}
	k := &r.sink
	k.op, k.last, k.n, k.offset, k.drop = seg.Op, seg.Last(), n, 0, false
	k.to, k.srq, k.shared, k.feed, k.sunk = nil, nil, false, nil, false
	k.hlen = copy(k.header[:ddp.HeaderLen(ulpdu[0])], ulpdu)
	switch {
	case seg.Op == rdmap.OpWrite:
		k.tagged = seg.Tagged
		return r.beginWrite()
	case seg.Op == rdmap.OpReadResponse:
		k.tagged = seg.Tagged
		return r.beginResponse()
	case r.s.shared != nil && seg.Untagged.QN >= rdmap.Queues:
		k.untagged = seg.Untagged
		return r.route(seg, ulpdu)
	case seg.Op.Send():
		k.untagged = seg.Untagged
		return r.beginSend()
	}
	k.untagged = seg.Untagged
	if n != len(seg.Payload) {
		// Longer than any message that is one segment.
		r.refuseParsed(seg.Op, rdmap.CauseStreamCatastrophic, ulpdu, k.hlen+n)
		return false
	}
	switch {
	case seg.Op == rdmap.OpReadRequest:
		r.readRequest(seg.Payload, ulpdu)
	case seg.Op == rdmap.OpAtomicRequest:
		r.atomicRequest(seg.Payload, ulpdu)
	case seg.Op == rdmap.OpAtomicResponse:
		r.atomicResponse(seg.Payload, ulpdu)
	case seg.Op == rdmap.OpTerminate:
		r.terminated(seg.Payload)
	case seg.Op.Immediate():
		r.immediate(seg.Payload, ulpdu)
	default:
		r.refuse(rdmap.CauseOpcode, ulpdu)
	}
	return false
}

// first notes the first FPDU. A responder may send from now on.
func (r *receiver) first() {
	r.s.heard.Store(true)
	if r.s.ln != nil {
		r.s.conn.Settled()
		r.s.release()
		r.s.settle(established{})
	}
}

// beginWrite checks an RDMA Write segment (RFC 5041 section 7.1).
func (r *receiver) beginWrite() bool {
	k := &r.sink
	// A peer that has the response to a read may overwrite what was read. To the
	// memory model too that comes after: the transmitter has counted it.
	_ = r.s.tx.replied.Load()
	if err := r.writes.Check(&k.tagged, k.n); err != nil {
		r.refuseSink(rdmap.CauseOf(err))
		return false
	}
	k.key = mr.Key(k.tagged.STag)
	k.domain, k.addr = r.s.named(k.tagged.TO, mr.RemoteWrite)
	k.drop = r.s.shared != nil && r.s.shared.badWrite
	return true
}

// beginSend checks a segment of a Send and finds the memory posted for it.
func (r *receiver) beginSend() bool {
	k := &r.sink
	h := &k.untagged
	if err := r.sends.CheckMSN(h); err != nil {
		r.refuseSink(rdmap.CauseOf(err))
		return false
	}
	if r.rtr && r.opening {
		if k.n == 0 && k.last && h.MO == 0 && k.op == rdmap.OpSend {
			r.sends.Advance(h, 0) // the Send is the RTR, not a message for the program
			return false
		}
	}
	if !r.filling {
		if !r.s.q.rq.pop(&r.recv) {
			r.refuseSink(rdmap.CauseDDPNoBuffer)
			return false
		}
		r.filling = true
	}
	if err := r.sends.CheckMO(h); err != nil {
		r.refuseSink(rdmap.CauseOf(err))
		return false
	}
	if uint64(h.MO)+uint64(k.n) > r.recv.room() {
		f := r.refusal(rdmap.CauseDDPTooLong, k.header[:k.hlen], k.hlen+k.n)
		f.receive, f.status = true, LocalLengthError
		r.stop(f)
		return false
	}
	k.offset = uint64(h.MO)
	return true
}

// beginResponse checks a segment of a Read Response against the read that is
// next to be answered (RFC 5040 section 4.5).
func (r *receiver) beginResponse() bool {
	k := &r.sink
	h := &k.tagged
	slot, index := r.awaited()
	if index == nil || *index != rtrSlot && slot.op != OpRead {
		cause := rdmap.CauseStreamCatastrophic
		if k.n > 0 && !r.known(mr.Key(h.STag)) {
			cause = rdmap.CauseDDPInvalidSTag
		}
		r.refuseSink(cause)
		return false
	}
	if *index == rtrSlot || slot.length == 0 {
		// Linux's siw may answer an empty read with the bytes of another.
		k.drop = true
		return true
	}
	sink := slot.sge[0]
	done := uint64(0)
	if r.responses.Open() {
		done = r.responses.TO() - sink.Addr
	}
	end := done + uint64(k.n)
	switch {
	case k.n > 0 && h.STag != uint32(sink.Key):
		r.badResponse(rdmap.CauseDDPInvalidSTag, *index)
		return false
	case k.n > 0 && h.TO != sink.Addr+done, end > uint64(slot.length), k.last && end != uint64(slot.length):
		r.badResponse(rdmap.CauseDDPBounds, *index)
		return false
	}
	k.key, k.domain, k.addr = sink.Key, r.s.q.pd.domain, h.TO
	return true
}

// known tells whether a key names anything at all here. Where look-ups are paced that
// is asked as if the peer wanted to use the key.
func (r *receiver) known(key mr.Key) bool {
	r.reader.Enter()
	defer r.reader.Leave()
	_, fault := r.reader.Check(&mr.Request{Key: key, Domain: r.s.q.pd.domain, From: r.s.peer, Len: 1})
	return fault == mr.None || fault == mr.OutOfBounds
}

// reserve checks the whole payload of a segment before any of it is placed.
func (r *receiver) reserve() bool {
	k := &r.sink
	if k.drop || k.op.Send() {
		return true // memory of ours is checked piece by piece
	}
	r.reader.Enter()
	_, fault := r.reader.Check(&mr.Request{Key: k.key, Domain: k.domain, From: r.from(), Use: &r.write, Rights: r.rights(), Addr: k.addr, Len: uint64(k.n)})
	r.reader.Leave()
	return fault == mr.None || r.fault(fault)
}

// from is the peer for its own accesses, nobody for ours.
func (r *receiver) from() (a netip.Addr) {
	if r.sink.op == rdmap.OpWrite {
		return r.s.peer
	}
	return a
}

func (r *receiver) rights() mr.Rights {
	if r.sink.op == rdmap.OpWrite {
		return mr.RemoteWrite
	}
	return mr.LocalWrite
}

// place copies payload to where it belongs.
func (r *receiver) place(p []byte) bool {
	if len(p) == 0 {
		return true
	}
	if r.sink.drop {
		return true
	}
	if to := r.sink.feed; to != nil {
		r.s.shared.sink.fed = true
		if err := to.Feed(p); err != nil {
			f := r.refusal(rdmap.CauseStreamCatastrophic, nil, 0)
			f.err = err
			r.stop(f)
			return false
		}
		r.sink.moved(len(p))
		return true
	}
	if !r.enter() {
		return !r.dead
	}
	for len(p) > 0 {
		mem, fault := r.find(len(p))
		if fault != mr.None {
			r.leave()
			return r.fault(fault)
		}
		n := copy(mem, p)
		r.sink.moved(n)
		p = p[n:]
	}
	r.leave()
	return true
}

// enter begins a section in which the sink's memory may be touched. If that is of
// a shared queue that was closed meanwhile its message is refused, and what comes
// of it dropped.
func (r *receiver) enter() bool {
	if srq := r.sink.srq; srq != nil && !srq.enter() {
		r.refuseMessage(xctl.NAKUnknown, 0)
		return false
	}
	r.reader.Enter()
	return true
}

func (r *receiver) leave() {
	r.reader.Leave()
	if srq := r.sink.srq; srq != nil {
		srq.leave()
	}
}

// find returns memory for up to n bytes at the sink's offset, in a section.
func (r *receiver) find(n int) ([]byte, mr.Fault) {
	k := &r.sink
	req := mr.Request{Domain: r.s.q.pd.domain, Rights: mr.LocalWrite}
	if k.op.Send() {
		recv := &r.recv
		if k.srq != nil {
			recv, req.Domain = &r.s.shared.recv, k.srq.pd.domain
		}
		off := k.offset
		for i := range recv.n {
			g := &recv.sge[i]
			if off < uint64(g.Len) {
				req.Key, req.Addr, req.Len = g.Key, g.Addr+off, min(uint64(n), uint64(g.Len)-off)
				break
			}
			off -= uint64(g.Len)
		}
	} else {
		req.Key, req.Domain, req.Addr, req.Len = k.key, k.domain, k.addr+k.offset, uint64(n)
		req.Rights, req.From, req.Use = r.rights(), r.from(), &r.write
	}
	return r.reader.Check(&req)
}

// finish ends the segment whose payload is placed.
func (r *receiver) finish() {
	k := &r.sink
	switch {
	case k.shared:
		r.finishShared()
	case k.op == rdmap.OpWrite:
		r.writes.Advance(&k.tagged, k.n)
		if k.last {
			r.wrote()
		}
	case k.op == rdmap.OpReadResponse:
		r.responses.Advance(&k.tagged, k.n)
		if k.last {
			r.answer()
		}
	default:
		r.sends.Advance(&k.untagged, k.n)
		if k.last {
			r.received(uint32(k.untagged.MO) + uint32(k.n))
		}
	}
}

// wrote ends a Write: its last segment is placed, or dropped because the Write is refused.
func (r *receiver) wrote() {
	x := r.s.shared
	r.s.dev.regions.Finish(&r.write, x == nil || !x.badWrite)
	if r.s.softWrites() {
		x.endWrite()
	}
}

// received completes a message of n bytes.
func (r *receiver) received(n uint32) {
	k := &r.sink
	c := Completion{ID: r.recv.id, Op: OpReceive, Len: n, Solicited: k.op.Solicited()}
	if k.op.Invalidates() {
		key := mr.Key(k.untagged.ULPData)
		if fault := r.reader.Revoke(key, r.s.q.pd.domain, r.s.peer); fault != mr.None {
			cause := rdmap.CauseInvalidation
			if fault == mr.WrongDomain || fault == mr.WrongPeer {
				cause = rdmap.CauseNotOurs
			}
			f := r.refusal(cause, k.header[:k.hlen], k.hlen+k.n)
			f.receive, f.status, f.vendor = true, LocalProtection, uint32(fault)
			r.stop(f)
			return
		}
		c.Invalidated = key
	}
	r.filling = false
	r.complete(c)
}

// immediate takes eight octets as a message of their own (RFC 7306 section 6).
func (r *receiver) immediate(payload, ulpdu []byte) {
	h := &r.sink.untagged
	var d rdmap.Immediate
	if err := r.sends.CheckMSN(h); err != nil {
		r.refuse(rdmap.CauseOf(err), ulpdu)
		return
	}
	if err := d.Decode(payload); err != nil || h.MO != 0 || !h.Last || r.sends.Open() {
		r.refuse(rdmap.CauseStreamCatastrophic, ulpdu)
		return
	}
	if !r.s.q.rq.pop(&r.recv) {
		r.refuse(rdmap.CauseDDPNoBuffer, ulpdu)
		return
	}
	r.sends.Advance(h, len(payload))
	r.complete(Completion{ID: r.recv.id, Op: OpImmediate, Len: rdmap.ImmediateLen, Immediate: uint64(d), Solicited: r.sink.op.Solicited()})
}

// awaited is the read or atomic that is next to be answered, nil if none is. That of an
// RTR is no work request.
func (r *receiver) awaited() (*sendSlot, *uint32) {
	t := &r.s.tx
	n := r.answered.Load()
	if n == t.asked.Load() {
		return nil, nil
	}
	index := &t.orq[n%uint64(len(t.orq))]
	if *index == rtrSlot {
		return nil, index
	}
	return r.s.slot(*index), index
}

// answer notes that the response is placed whole. The work request completes at
// the end of the burst.
func (r *receiver) answer() {
	r.answered.Add(1)
	r.kick = true
}

// atomicResponse stores what an atomic found.
func (r *receiver) atomicResponse(payload, ulpdu []byte) {
	h := &r.sink.untagged
	if err := r.atomics.Check(h); err != nil {
		r.refuse(rdmap.CauseOf(err), ulpdu)
		return
	}
	slot, index := r.awaited()
	var a rdmap.AtomicResponse
	err := a.Decode(payload)
	switch {
	case err != nil || !h.Last || index == nil || *index == rtrSlot || slot.op == OpRead || a.ID != uint32(r.answered.Load()):
		r.refuse(rdmap.CauseStreamCatastrophic, ulpdu)
		return
	}
	r.atomics.Advance(h, len(payload))
	g := slot.sge[0]
	r.reader.Enter()
	mem, fault := r.reader.Check(&mr.Request{Key: g.Key, Domain: r.s.q.pd.domain, Rights: mr.LocalWrite, Addr: g.Addr, Len: 8})
	if fault == mr.None {
		binary.NativeEndian.PutUint64(mem, a.Value)
	}
	r.reader.Leave()
	if fault != mr.None {
		r.stop(failure{err: fault, status: LocalProtection, vendor: uint32(fault), slot: *index, culprit: true})
		return
	}
	r.answer()
}
