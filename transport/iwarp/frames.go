package iwarp

import (
	"time"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/mpa"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// window is what the transmitter may look at, as it was under the lock.
type window struct {
	tail   uint32
	frames [][]byte // whole ULPDUs that go first: an RTR, a kick
	hold   bool     // no message may leave yet
	now    time.Time
	short  []shortMessage // short messages, each in its place among the work requests
	run    *frameRun      // what SendFrames sends; nil: nothing
}

// end is the work request before which something else has to be sent.
func (w *window) end() uint32 {
	if len(w.short) > 0 {
		return w.short[0].after
	}
	return w.tail
}

// build fills the batch. A work request that cannot be sent is left for the next
// call, which then has an empty batch and returns why: what was posted before it
// goes out first.
func (s *stream) build(w window) (failure, bool) {
	t := &s.tx
	t.batch.reset()
	if t.doomed != nil {
		return *t.doomed, false
	}
	for _, f := range w.frames {
		t.batch.add(f)
	}
	for !w.hold && t.doomed == nil && (!t.batch.full() || s.shortNext(&w)) && (t.open || s.pick(&w)) {
		if t.from == fromShort {
			s.shortSegment(&w)
			continue
		}
		switch t.from {
		case fromShared:
			s.sharedSegment()
		case fromResponse:
			s.responseSegment()
		default:
			if slot := s.slot(t.next - 1); slot.answered() {
				s.requestSegment(slot)
			} else {
				s.messageSegment(slot)
			}
		}
	}
	t.done = t.doomed == nil && !t.open && !t.batch.full()
	if w.run != nil && t.done && len(w.short) == 0 && (!w.run.fenced || t.next == w.tail) {
		t.done = s.addFrames(w.run)
	}
	if t.doomed != nil && t.batch.size == 0 {
		return *t.doomed, false
	}
	return failure{}, true
}

// shortNext tells whether a short message is next, and goes with what it follows: a
// write of its own would wake the peer once more for a few bytes.
func (s *stream) shortNext(w *window) bool {
	return !s.tx.open && len(w.short) > 0 && s.tx.next == w.short[0].after && !s.tx.batch.crammed()
}

// mark is that of a segment of the work request at hand. With its end those that
// were passed before it are out of the way too.
func (t *transmitter) mark(last bool) mark {
	if !last {
		return mark{}
	}
	m := mark{requests: 1 + t.passed}
	t.passed = 0
	return m
}

// doom ends the building with the segment that was begun.
func (t *transmitter) doom(f failure) {
	t.batch.drop()
	t.open, t.doomed = false, &f
}

// pick opens the next message: work requests in order, responses to the peer's
// reads, and messages to shared queues, in turn while there are several. A
// message is sent whole before the next one: no receiver has to sort two of a
// kind (RFC 5041 section 5.3).
func (s *stream) pick(w *window) bool {
	t := &s.tx
	if len(w.short) > 0 && t.next == w.short[0].after {
		t.open, t.from = true, fromShort
		return true
	}
	for s.shared != nil && t.next != w.end() && s.slot(t.next).queue != 0 && s.mayStart(s.slot(t.next)) {
		if q, builds := s.shared.detach(s.q, t.next&uint32(len(s.q.slots)-1)); builds {
			// Before any other Write: the peer takes all that follow the first.
			s.shared.ahead(q)
			t.turn = fromShared
		}
		t.next++
		t.passed++
	}
	for i := range origins {
		from := (t.turn + i) % origins
		switch from {
		case fromWork:
			if t.next == w.end() || s.slot(t.next).queue != 0 || !s.mayStart(s.slot(t.next)) {
				continue
			}
			t.next++
		case fromResponse:
			if t.serving == s.rx.asked.Load() {
				continue
			}
		case fromShared:
			if s.shared == nil || !s.pickShared(w.now) {
				continue
			}
		}
		t.open, t.offset, t.from, t.turn = true, 0, from, (from+1)%origins
		return true
	}
	return false
}

func (s *stream) slot(i uint32) *sendSlot { return &s.q.slots[i&uint32(len(s.q.slots)-1)] }

// mayStart tells whether the next work request can go now: a read or atomic
// needs a place at the peer (ORD, RFC 5040 section 6.5), a fence that all
// earlier ones were answered.
func (s *stream) mayStart(w *sendSlot) bool {
	out := s.tx.asked.Load() - s.rx.answered.Load()
	if w.flags&Fence != 0 && out > 0 {
		return false
	}
	return !w.answered() || out < uint64(len(s.tx.orq)) || len(s.tx.orq) == 0 // with an ORD of 0 a request cannot wait
}

// messageSegment appends the next segment of a Send, Write or Immediate Data.
func (s *stream) messageSegment(w *sendSlot) {
	t, b := &s.tx, &s.tx.batch
	tagged := w.op == OpWrite
	n := min(w.length-t.offset, w.most(t, tagged))
	last := t.offset+n == w.length
	counted := tagged && t.offset == 0 && s.softWrites()
	if counted && !last && w.local == nil && !s.whole(w) {
		s.failWrite()
		return
	}
	if tagged {
		b.begin(ddp.TaggedLen + int(n))
		h := ddp.Tagged{Last: last, ULP: rdmap.OpWrite.Control(), STag: uint32(w.remoteKey), TO: w.remoteAddr + uint64(t.offset)}
		b.stage.B = h.AppendTo(b.stage.B)
	} else {
		if t.offset == 0 {
			t.sends++
		}
		h := ddp.Untagged{Last: last, ULP: w.opcode().Control(), QN: rdmap.QueueSend, MSN: t.sends, MO: t.offset}
		if w.op == OpSendInvalidate {
			h.ULPData = uint32(w.invalidate)
		}
		if w.op == OpImmediate {
			b.begin(ddp.UntaggedLen + rdmap.ImmediateLen)
			b.stage.B = rdmap.Immediate(w.args[0]).AppendTo(h.AppendTo(b.stage.B))
		} else {
			b.begin(ddp.UntaggedLen + int(n))
			b.stage.B = h.AppendTo(b.stage.B)
		}
	}
	if w.inline > 0 {
		at := (t.next - 1) & uint32(len(s.q.slots)-1)
		b.stage.B = append(b.stage.B, s.q.inlineOf(at)[t.offset:][:n]...)
	} else if w.local != nil {
		s.gatherLocal(w, t.offset, n)
	} else if fault := s.gather(w, t.offset, n); fault != mr.None && counted {
		b.drop()
		w.status, w.vendor = LocalProtection, uint32(fault)
		s.failWrite()
		return
	} else if fault != mr.None {
		t.doom(failure{err: fault, status: LocalProtection, vendor: uint32(fault), slot: t.next - 1, culprit: true})
		return
	}
	if counted {
		s.shared.beginWrite(w, t.next-1)
	}
	b.end(t.mark(last))
	t.offset += n
	t.open = !last
}

// gather appends n bytes of w's memory from offset on.
func (s *stream) gather(w *sendSlot, offset, n uint32) mr.Fault {
	if n == 0 {
		return mr.None
	}
	s.tx.enter()
	defer s.tx.leave()
	copies := s.tx.batch.copies(int(n), s.shared == nil)
	for i := 0; n > 0; i++ {
		g := &w.sge[i]
		if offset >= g.Len {
			offset -= g.Len
			continue
		}
		p := piece{key: g.Key, n: int(min(n, g.Len-offset)), addr: g.Addr + uint64(offset)}
		if fault := s.payload(p, copies); fault != mr.None {
			return fault
		}
		offset = 0
		n -= uint32(p.n)
	}
	return mr.None
}

// gatherLocal is gather for memory that is not registered.
func (s *stream) gatherLocal(w *sendSlot, offset, n uint32) {
	b := &s.tx.batch
	copies := b.copies(int(n), s.shared == nil)
	for i := 0; n > 0; i++ {
		p := w.local[i]
		if offset >= uint32(len(p)) {
			offset -= uint32(len(p))
			continue
		}
		p = p[offset:]
		p = p[:min(int(n), len(p))]
		if copies {
			b.stage.B = append(b.stage.B, p...)
		} else {
			b.lendOwn(p)
			b.borrows = true // nothing looks for it again
		}
		offset = 0
		n -= uint32(len(p))
	}
}

// payload appends registered memory, in a section.
func (s *stream) payload(p piece, copies bool) mr.Fault {
	req := s.lookup(&p)
	mem, fault := s.tx.reader.Check(&req)
	switch {
	case fault != mr.None:
	case copies:
		s.tx.batch.stage.B = append(s.tx.batch.stage.B, mem...)
	case s.firm():
		s.tx.batch.lendOwn(mem)
		s.tx.batch.borrows = true
	default:
		s.tx.batch.lend(p, mem)
	}
	return fault
}

// lookup is the request for the memory of a piece: the program's own, or what
// the peer reads.
func (s *stream) lookup(p *piece) mr.Request {
	req := mr.Request{Key: p.key, Domain: s.q.pd.domain, Addr: p.addr, Len: uint64(p.n)}
	if p.use != nil {
		req.Domain, req.Rights, req.From, req.Use = p.domain, mr.RemoteRead, s.peer, p.use
	}
	return req
}

// requestSegment appends a Read Request or an Atomic Request. The receiver finds
// the work request in orq.
func (s *stream) requestSegment(w *sendSlot) {
	t, b := &s.tx, &s.tx.batch
	if len(t.orq) == 0 {
		b.begin(0)
		t.doom(failure{err: errNoORD, status: LocalQPError, slot: t.next - 1, culprit: true})
		return
	}
	sent := t.asked.Load()
	w.index = sent
	t.orq[sent%uint64(len(t.orq))] = t.next - 1
	t.requests++
	h := ddp.Untagged{Last: true, QN: rdmap.QueueRequest, MSN: t.requests}
	if w.op == OpRead {
		b.begin(ddp.UntaggedLen + rdmap.ReadRequestLen)
		h.ULP = rdmap.OpReadRequest.Control()
		r := rdmap.ReadRequest{Size: w.length, SourceSTag: uint32(w.remoteKey), SourceTO: w.remoteAddr}
		if w.length > 0 {
			r.SinkSTag, r.SinkTO = uint32(w.sge[0].Key), w.sge[0].Addr
		}
		b.stage.B = r.AppendTo(h.AppendTo(b.stage.B))
	} else {
		b.begin(ddp.UntaggedLen + rdmap.AtomicRequestLen)
		h.ULP = rdmap.OpAtomicRequest.Control()
		r := rdmap.AtomicRequest{Op: rdmap.FetchAdd, ID: uint32(sent), STag: uint32(w.remoteKey), TO: w.remoteAddr,
			Add: w.args[0], AddMask: w.args[1], CompareMask: ^uint64(0)}
		if w.op == OpCompareSwap {
			r.Op, r.Compare, r.CompareMask, r.Add, r.AddMask = rdmap.CompareSwap, w.args[0], w.args[1], w.args[2], w.args[3]
		}
		b.stage.B = r.AppendTo(h.AppendTo(b.stage.B))
	}
	b.end(t.mark(true))
	t.asked.Store(sent + 1) // before a byte of the request is written
	t.open = false
}

// responseSegment appends the next segment of the response to the peer's oldest
// Read or Atomic Request.
func (s *stream) responseSegment() {
	t, b := &s.tx, &s.tx.batch
	a := &s.rx.irq[t.serving%uint64(len(s.rx.irq))]
	if a.cause != 0 {
		s.readError(a, 0, a.cause)
		return
	}
	if a.atomic {
		t.atomics++
		b.begin(ddp.UntaggedLen + rdmap.AtomicResponseLen)
		h := ddp.Untagged{Last: true, ULP: rdmap.OpAtomicResponse.Control(), QN: rdmap.QueueAtomicResponse, MSN: t.atomics}
		b.stage.B = rdmap.AtomicResponse{ID: a.id, Value: a.value}.AppendTo(h.AppendTo(b.stage.B))
		b.end(mark{})
		s.served(true)
		return
	}
	n := min(a.read.Size-t.offset, t.most(true))
	last := t.offset+n == a.read.Size
	b.begin(ddp.TaggedLen + int(n))
	h := ddp.Tagged{Last: last, ULP: rdmap.OpReadResponse.Control(), STag: a.read.SinkSTag, TO: a.read.SinkTO + uint64(t.offset)}
	b.stage.B = h.AppendTo(b.stage.B)
	if n > 0 {
		p := piece{key: mr.Key(a.read.SourceSTag), use: &a.use, domain: a.domain, n: int(n), addr: a.addr + uint64(t.offset)}
		t.enter()
		// On a connection that many share a region that goes away must not leave
		// half a segment behind, and a use-once region ends with its last segment.
		fault := s.payload(p, s.shared != nil || a.use.Holds() || b.copies(int(n), false))
		t.leave()
		switch {
		case fault != mr.None && s.softReads():
			b.drop()
			s.readError(a, t.offset, protectionCause(fault))
			return
		case fault != mr.None:
			t.doom(s.refuseRead(a, t.offset, fault))
			return
		}
	}
	b.end(mark{})
	t.offset += n
	if last {
		s.served(true)
	}
}

// served ends the response that is built whole, before a byte of its end is
// written: as soon as the peer has it all it may ask for more, and that may come
// before the system call returns.
func (s *stream) served(success bool) {
	t := &s.tx
	s.dev.regions.Finish(&s.rx.irq[t.serving%uint64(len(s.rx.irq))].use, success)
	t.serving++
	t.replied.Store(t.serving)
	t.open = false
}

// opcode is that of an untagged message.
func (w *sendSlot) opcode() rdmap.Op {
	solicited := w.flags&Solicited != 0
	switch {
	case w.op == OpSendInvalidate && solicited:
		return rdmap.OpSendSolicitedInvalidate
	case w.op == OpSendInvalidate:
		return rdmap.OpSendInvalidate
	case w.op == OpImmediate && solicited:
		return rdmap.OpImmediateSolicited
	case w.op == OpImmediate:
		return rdmap.OpImmediate
	case solicited:
		return rdmap.OpSendSolicited
	}
	return rdmap.OpSend
}

// emptyWrite is a ULPDU that means nothing to whoever receives it. Linux's siw
// does not use STag 0 here, so neither do we.
func emptyWrite() []byte {
	return ddp.Tagged{Last: true, ULP: rdmap.OpWrite.Control(), STag: 1}.AppendTo(nil)
}

// rtr makes the first ULPDU of a peer-to-peer connection (RFC 6581 section 9.2).
// Nothing else has been sent yet.
func (t *transmitter) rtr(kind mpa.RTR) []byte {
	h := ddp.Untagged{Last: true, MSN: 1}
	switch kind {
	case mpa.RTRRead:
		h.ULP, h.QN = rdmap.OpReadRequest.Control(), rdmap.QueueRequest
		t.requests++
		t.orq[0] = rtrSlot
		t.asked.Store(1)
		return rdmap.ReadRequest{SourceSTag: 1}.AppendTo(h.AppendTo(nil))
	case mpa.RTRSend:
		h.ULP = rdmap.OpSend.Control()
		t.sends++
		return h.AppendTo(nil)
	}
	return emptyWrite()
}

// rtrSlot in the orq is the Read that no program has posted.
const rtrSlot = ^uint32(0)
