package mr

import (
	"net/netip"

	"github.com/rds-go/rds/internal/invariants"
)

// Revoke ends a region on behalf of a peer (Send with Invalidate, RFC 5040
// section 5.3). The region must be of the domain or inside of it, open to that peer and have a
// remote right. At return of None the key is dead and its grace period over,
// so the caller may deliver the message; Held means that the key is dead but a
// reader stuck, so that the message must not say that the memory is free. The
// owner cannot free the region any more; Options.Released is called with the
// next invalidation.
//
// With a guard (Config.PeerLookUps) a peer ends only regions that it is known to have the
// key of.
//
// Revoke waits for the sections of others and is called outside of one. It is
// meant for event loops: unless a section takes much longer than it should,
// it neither sleeps nor does the work of other invalidations.
func (r *Reader) Revoke(k Key, dom *Domain, from netip.Addr) Fault {
	if invariants.Enabled && r.n&1 != 0 {
		panic("mr: Revoke inside a reader section")
	}
	req := Request{Key: k, Domain: dom, From: from}
	f := Unseen
	if !r.guarded || r.has(&req) {
		f = r.dev.revoke(&req)
	}
	if f != None {
		f = r.refuse(&req, f)
		r.left()
		return f
	}
	if r.dev.settle() != nil {
		return Held
	}
	return None
}

// has tells whether the peer is known to have the key.
func (r *Reader) has(req *Request) bool {
	r.serve(req.From)
	r.Enter()
	defer r.Leave()
	index, _ := r.table.cipher.base(req.Key)
	m := r.table.live(index)
	return m != nil && m.key == req.Key && m.acquainted(req.From, r.id)
}

func (d *Device) revoke(req *Request) Fault {
	at := d.table.known(req.Key)
	if at == nil {
		return NoRegion
	}
	p := d.pools[at.class()]
	p.mu.Lock()
	m := at.live.Load()
	var f Fault
	switch {
	case m == nil || m.key != req.Key:
		f = d.table.absent(req.Key)
	case !req.Domain.holds(m.domain):
		f = WrongDomain
	case m.elsewhere(req.From):
		f = WrongPeer
	case m.rights&remote == 0:
		f = NoRight
	}
	if f != None {
		p.mu.Unlock()
		return f
	}
	flush := p.dropLocked(at, m)
	p.mu.Unlock()
	d.dropped(flush)
	return None
}
