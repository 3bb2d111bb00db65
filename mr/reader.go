package mr

import (
	"net/netip"
	"sync/atomic"

	"github.com/rds-go/rds/internal/invariants"
)

// Request is one access to check.
type Request struct {
	Key Key
	// Domain is where the request reaches regions; nil: nowhere.
	Domain *Domain
	// From is the peer that asks; the zero address for local use.
	From netip.Addr
	// Rights are all needed; 0 stands for local reading.
	Rights Rights
	// Addr is where the access begins, in the region's addresses, Len its length
	// in bytes.
	Addr, Len uint64
	// Use is the operation of a peer that the access is part of. Without one a peer
	// cannot use a use-once region.
	Use *Use
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
	stuck   func() // may be nil

	recent  [64]recentKey // keys that were looked for last; a key is at the index that its lowest bits are
	guarded bool          // look-ups of peers are paced
	peer    netip.Addr    // peer that recent is about
	id      Peer          // peer, as regions note it
	met     [4]metPeer    // keys that peers have used in the section and that Leave notes; more than fit are not noted
	meets   uint32        // number of entries of met in use
	_       [64]byte
}

// badKey is a refusal on its way to the table of offenders.
type badKey struct {
	peer  netip.Addr
	fault Fault
	n     uint64
}

// recentKey is what a reader knows of a key: where its base is, so that the key need not
// be deciphered again, and that the reader's peer has it.
type recentKey struct {
	key    Key
	index  uint32
	serial uint64 // mapping of which the peer has the key, 0: none
}

// metPeer is a key that a peer has used, on its way to the region's acquaintances.
type metPeer struct {
	key  Key
	peer Peer
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
	if r.grace.waiting.Load()|r.noted|r.meets != 0 {
		r.left()
	}
}

// left does, outside of the section, what is not for every Leave.
func (r *Reader) left() {
	for _, b := range r.bad[:r.noted] {
		r.dev.offenders.note(b.peer, b.fault, b.n)
	}
	r.noted = 0
	for _, m := range r.met[:r.meets] {
		r.dev.Give(m.key, m.peer)
	}
	r.meets = 0
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
	e := &r.recent[req.Key%Key(len(r.recent))]
	if e.key != req.Key {
		index, _ := r.table.cipher.base(req.Key)
		*e = recentKey{key: req.Key, index: index}
	}
	m := r.table.live(e.index)
	if invariants.Enabled && m != nil && m.scribbled {
		panic("mr: a section found a recycled mapping")
	}
	if m == nil || m.key != req.Key || r.guarded && (e.serial != m.serial || r.peer != req.From) {
		if f := r.meet(req, e, m); f != None {
			return nil, r.refuse(req, f)
		}
	}
	if f := m.check(req); f != None {
		return nil, r.refuse(req, f)
	}
	off := req.Addr - m.base
	return m.mem[off : off+req.Len : off+req.Len], None
}

// meet decides about a request for a key that the peer is not known to have. m is what
// the base has now. None means that m is what the key names, and the request is to be
// checked.
func (r *Reader) meet(req *Request, e *recentKey, m *mapping) Fault {
	if m != nil && m.key != req.Key {
		m = nil
	}
	if !req.From.IsValid() || !r.guarded {
		if m == nil {
			return r.table.absent(req.Key)
		}
		return None
	}
	r.serve(req.From)
	if m != nil && m.acquainted(req.From, r.id) {
		e.serial = m.serial
		return None
	}
	// From here on nothing that the peer can notice depends on m, unless it has a token.
	switch {
	case !r.dev.guard.take(r.id):
		return Unseen
	case m == nil || m.check(req) != None:
		return Denied
	}
	e.serial = m.serial
	if int(r.meets) < len(r.met) {
		r.met[r.meets] = metPeer{m.key, r.id}
		r.meets++
	}
	return None
}

// serve has recent be about a peer: it forgets which keys another peer has.
func (r *Reader) serve(peer netip.Addr) {
	if r.peer == peer {
		return
	}
	for i := range r.recent {
		r.recent[i].serial = 0
	}
	r.peer, r.id = peer, r.dev.Peer(peer)
}

// acquainted tells whether a peer is known to have the key.
func (m *mapping) acquainted(peer netip.Addr, id Peer) bool {
	return m.bound && !m.elsewhere(peer) || m.known.has(id)
}

func (m *mapping) check(req *Request) Fault {
	if m.domain != req.Domain && !req.Domain.holds(m.domain) {
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
	if m.once && req.From.IsValid() && !m.taken(req) {
		return Spent
	}
	return None
}

// elsewhere says whether the region is for another peer than the one that
// asks; local use is not asked.
func (m *mapping) elsewhere(from netip.Addr) bool {
	return m.bound && from.IsValid() && m.peer != from && m.peer != from.Unmap()
}

// refuse counts a refusal; who asked for it is written down after the section. With a
// guard, a peer is not told why.
func (r *Reader) refuse(req *Request, f Fault) Fault {
	r.counts[f].Store(r.counts[f].Load() + 1)
	if !req.From.IsValid() {
		return f
	}
	told := f
	if r.guarded {
		told = Denied
	}
	peer := req.From.Unmap()
	for i := range r.bad[:r.noted] {
		if b := &r.bad[i]; b.peer == peer && b.fault == f {
			b.n++
			return told
		}
	}
	if int(r.noted) < len(r.bad) {
		r.bad[r.noted] = badKey{peer, f, 1}
		r.noted++
	}
	return told
}
