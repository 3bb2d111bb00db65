package mr

import (
	"net/netip"
	"sync/atomic"

	"github.com/rds-go/rds/internal/invariants"
)

// Request is one access to check.
type Request struct {
	Key    Key
	Domain *Domain
	// From is the peer that asks; the zero address for local use.
	From netip.Addr
	// Rights are all needed; 0 stands for local reading.
	Rights Rights
	// Addr is where the access begins, in the region's addresses, Len its length
	// in bytes.
	Addr, Len uint64
	// Claim names the operation that the access is part of. A use-once region
	// serves the first operation that reaches it and no other until Unclaim. An
	// operation from a peer without a claim cannot use such a region.
	Claim uint64
}

// Reader makes reader sections: between Enter and Leave, memory that Check
// returned is neither released nor reused. One goroutine uses a Reader at a
// time. Sections are short and never wait: no lock, no network, at most one chunk
// copied or one system call that does not block.
type Reader struct {
	// seq is odd inside a section. Only the Reader's goroutine writes it, so the
	// line stays in its cache; those that wait for the end of a section read it.
	_   [64]byte
	seq atomic.Uint64
	n   uint64 // copy of seq that only the Reader's goroutine uses
	// awaited is 1 while a grace period counts on this Reader to report.
	awaited atomic.Uint32
	noted   uint32 // number of entries of bad in use
	table   *table
	grace   *grace
	bad     [4]badKey
	counts  [faults]atomic.Uint64
	dev     *Device
	name    string
	_       [64]byte
}

// badKey is a refusal on its way to the table of offenders.
type badKey struct {
	peer  netip.Addr
	fault Fault
	n     uint64
}

// Enter begins a section. Sections do not nest.
func (r *Reader) Enter() {
	r.n++
	if invariants.Enabled && r.n&1 == 0 {
		panic("mr: reader sections nest")
	}
	// Sequentially consistent, as all of sync/atomic: who clears a slot and then
	// finds seq even knows that a section begun later sees the slot cleared.
	r.seq.Store(r.n)
}

// Leave ends the section. What Check returned in it must not be used any more.
// While an invalidation waits, Leave gives up the processor once, so that a
// reader that was preempted in a section comes to its end.
func (r *Reader) Leave() {
	r.n++
	if invariants.Enabled && r.n&1 != 0 {
		panic("mr: leaving a reader section that was not entered")
	}
	r.seq.Store(r.n)
	if r.grace.waiting.Load()|r.noted != 0 {
		r.left()
	}
}

// left does, outside of the section, what is not for every Leave.
func (r *Reader) left() {
	for _, b := range r.bad[:r.noted] {
		r.dev.offenders.note(b.peer, b.fault, b.n)
	}
	r.noted = 0
	if r.grace.waiting.Load() != 0 {
		r.grace.passed(r)
	}
}

// Check verifies a request in the order of the Fault constants and returns the
// memory it means. It must be called inside a section; the slice is valid
// until Leave. An access of no length is always right and gets nil.
func (r *Reader) Check(req *Request) ([]byte, Fault) {
	if invariants.Enabled && r.n&1 == 0 {
		panic("mr: Check outside of a reader section")
	}
	if req.Len == 0 {
		return nil, None
	}
	s := r.table.slot(req.Key.Index())
	if s == nil {
		return nil, r.refuse(req, NoRegion)
	}
	m := s.live.Load()
	if m == nil {
		return nil, r.refuse(req, r.table.absent(req.Key))
	}
	if invariants.Enabled && m.scribbled {
		panic("mr: a section found a recycled mapping")
	}
	if m.key != req.Key {
		return nil, r.refuse(req, StaleKey)
	}
	if f := m.check(req); f != None {
		return nil, r.refuse(req, f)
	}
	off := req.Addr - m.base
	return m.mem[off : off+req.Len : off+req.Len], None
}

func (m *mapping) check(req *Request) Fault {
	if m.domain != req.Domain {
		return WrongDomain
	}
	if m.elsewhere(req.From) {
		return WrongPeer
	}
	if req.Rights&^m.rights != 0 {
		return NoRight
	}
	if req.Addr+(req.Len-1) < req.Addr {
		return Wrap
	}
	// Below base, off is huge; no sum here can wrap.
	if off := req.Addr - m.base; off > uint64(len(m.mem)) || req.Len > uint64(len(m.mem))-off {
		return OutOfBounds
	}
	if req.Rights&RemoteAtomic != 0 && (req.Len != 8 || req.Addr%8 != 0) {
		return Misaligned
	}
	if m.once && req.From.IsValid() && !m.taken(req.Claim) {
		return Spent
	}
	return None
}

// elsewhere says whether the region is for another peer than the one that
// asks; local use is not asked.
func (m *mapping) elsewhere(from netip.Addr) bool {
	return m.bound && from.IsValid() && m.peer != from && m.peer != from.Unmap()
}

// refuse counts a refusal; who asked for it is written down after the section.
func (r *Reader) refuse(req *Request, f Fault) Fault {
	r.counts[f].Store(r.counts[f].Load() + 1)
	if !req.From.IsValid() {
		return f
	}
	peer := req.From.Unmap()
	for i := range r.bad[:r.noted] {
		if b := &r.bad[i]; b.peer == peer && b.fault == f {
			b.n++
			return f
		}
	}
	if int(r.noted) < len(r.bad) {
		r.bad[r.noted] = badKey{peer, f, 1}
		r.noted++
	}
	return f
}
