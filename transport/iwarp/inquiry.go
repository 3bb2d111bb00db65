package iwarp

import (
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// inquiry is a Read or Atomic Request that was received and not answered yet.
type inquiry struct {
	atomic bool
	id     uint32      // request id of an atomic
	value  uint64      // value that an atomic found
	cause  rdmap.Cause // why the request is refused; the connection goes on
	use    mr.Use      // the request, as use-once regions see it
	msn    uint32
	read   rdmap.ReadRequest
	domain *mr.Domain            // protection domain of what is read
	addr   uint64                // address of what is read
	header [ddp.UntaggedLen]byte // header of the request, for a Terminate
}

// inquire checks that a request comes where one may, and that there is room for it:
// the peer asks for no more at a time than it may (IRD; RFC 5040 sections 5.1 and
// 6.5). It returns its place, or nil if the stream has ended.
func (r *receiver) inquire(ulpdu []byte) *inquiry {
	h := &r.sink.untagged
	err := r.requests.Check(h)
	n := r.asked.Load()
	switch {
	case err != nil:
	case !h.Last, r.sends.Open(), n-r.s.tx.replied.Load() >= uint64(r.slots):
		err = rdmap.CauseStreamCatastrophic
	}
	if err != nil {
		r.refuse(rdmap.CauseOf(err), ulpdu)
		return nil
	}
	if r.irq == nil {
		r.irq = make([]inquiry, r.slots)
	}
	a := &r.irq[n%uint64(len(r.irq))]
	a.cause, a.msn = 0, h.MSN
	return a
}

// admit hands the inquiry over to the transmitter.
func (r *receiver) admit(payload int) {
	r.requests.Advance(&r.sink.untagged, payload)
	r.asked.Add(1)
	r.kick = true
}

// readRequest takes an RDMA Read Request. Of an empty one neither key nor
// address mean anything (RFC 5040 section 5.2.1).
func (r *receiver) readRequest(payload, ulpdu []byte) {
	var q rdmap.ReadRequest
	if err := q.Decode(payload); err != nil {
		r.refuse(rdmap.CauseOf(err), ulpdu)
		return
	}
	a := r.inquire(ulpdu)
	if a == nil {
		return
	}
	a.domain, a.addr = r.s.named(q.SourceTO, mr.RemoteRead)
	r.reader.Enter()
	_, fault := r.reader.Check(&mr.Request{Key: mr.Key(q.SourceSTag), Domain: a.domain, From: r.s.peer, Use: &a.use,
		Rights: mr.RemoteRead, Addr: a.addr, Len: uint64(q.Size)})
	r.reader.Leave()
	if fault != mr.None && !r.refuseInquiry(a, fault, ulpdu) {
		return
	}
	a.atomic, a.read = false, q
	copy(a.header[:], ulpdu)
	r.admit(len(payload))
}

// atomicRequest executes an Atomic Request; the answer goes out in its turn (RFC
// 7306 section 5).
func (r *receiver) atomicRequest(payload, ulpdu []byte) {
	var q rdmap.AtomicRequest
	if err := q.Decode(payload); err != nil {
		r.refuse(rdmap.CauseOf(err), ulpdu)
		return
	}
	a := r.inquire(ulpdu)
	if a == nil {
		return
	}
	domain, addr := r.s.named(q.TO, mr.RemoteAtomic)
	r.reader.Enter()
	word, fault := r.reader.Check(&mr.Request{Key: mr.Key(q.STag), Domain: domain, From: r.s.peer, Use: &a.use,
		Rights: mr.RemoteAtomic, Addr: addr, Len: 8})
	if fault == mr.None {
		if q.Op == rdmap.FetchAdd {
			a.value = mr.FetchAdd(word, q.Add, q.AddMask)
		} else {
			a.value = mr.CompareSwap(word, q.Compare, q.CompareMask, q.Add, q.AddMask)
		}
	}
	r.reader.Leave()
	r.s.dev.regions.Finish(&a.use, true)
	if fault != mr.None && !r.refuseInquiry(a, fault, ulpdu) {
		return
	}
	a.atomic, a.id = true, q.ID
	r.admit(len(payload))
}

// endUses follows the end of the stream: what the peer has not finished has failed.
func (r *receiver) endUses() {
	r.s.dev.regions.Finish(&r.write, false)
	for i := range r.irq {
		r.s.dev.regions.Finish(&r.irq[i].use, false)
	}
}

// refuseRead is the failure of a read whose region went away while it was being
// answered: offset bytes are sent.
func (s *stream) refuseRead(a *inquiry, offset uint32, fault mr.Fault) failure {
	segment := a.read.AppendTo(append([]byte(nil), a.header[:]...))
	t := rdmap.NewTerminate(protectionCause(fault), segment)
	if t.HasRead {
		t.Read = t.Read.After(offset)
	}
	return s.refused(t, fault)
}
